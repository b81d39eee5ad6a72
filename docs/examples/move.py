#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moves bytes from worker A to worker B of this machine, whose memory it maps: no byte goes through HTTP.

move.py http://HOST-A:PORT http://HOST-B:PORT
"""
import json
import mmap
import sys
import urllib.request

SIZE = 1 << 20


def call(url, body=None, method=None):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or "null")


def memory(region):
    with open(region["path"], "r+b") as file:
        return mmap.mmap(file.fileno(), region["size"])


a, b = (url + "/v1" for url in sys.argv[1:3])
source, target = (call(worker + "/regions", {"size": SIZE}) for worker in (a, b))
from_, to = memory(source), memory(target)
from_[:] = bytes(range(256)) * (SIZE // 256)

offer = call(a + "/operations?include=metadata", {"kind": "readable", "descriptors": [{"region": source["id"]}]})
read = call(b + "/operations", {"kind": "read", "descriptors": [{"region": target["id"]}],
                                "remote_metadata": offer["metadata"]})
read = call(f"{b}/operations/{read['id']}?wait_ms=30000")
print(read["status"], read.get("transport"), read.get("duration_us"), "us")
print("same" if to[:] == from_[:] else "different")

call(f"{a}/regions/{source['id']}", method="DELETE")
call(f"{b}/regions/{target['id']}", method="DELETE")
