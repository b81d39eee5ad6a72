#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Moves a file from worker A to worker B: move.sh http://HOST-A:PORT http://HOST-B:PORT
set -euo pipefail
a=$1/v1 b=$2/v1 file=${3:-$0} size=$(stat -L -c %s "${3:-$0}")

post() { curl -sSf -H 'Content-Type: application/json' -d "$2" "$1"; }

source=$(post "$a/regions" "{\"size\":$size}" | jq -r .id)
target=$(post "$b/regions" "{\"size\":$size}" | jq -r .id)
curl -sSf -T "$file" "$a/regions/$source/content"

offer=$(post "$a/operations?include=metadata" "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"$source\"}]}")
metadata=$(jq -c .metadata <<<"$offer")
read=$(post "$b/operations" "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"$target\"}],\"remote_metadata\":$metadata}" | jq -r .id)
curl -sSf "$b/operations/$read?wait_ms=30000" | jq -c '{status, bytes_done, transport, duration_us, error}'
curl -sSf "$a/operations/$(jq -r .id <<<"$offer")?wait_ms=30000" >/dev/null # whose region is free when it has ended, too

curl -sSf "$b/regions/$target/content" | cmp - "$file" && echo same
curl -sSf -X DELETE "$a/regions/$source"
curl -sSf -X DELETE "$b/regions/$target"
