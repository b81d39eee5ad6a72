#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole cycle by the client that openapi-python-client makes of openapi.yaml.

client.py GENERATED-PACKAGE-FOLDER URL-A URL-B
"""
import importlib
import io
import os
import sys

folder, url_a, url_b = sys.argv[1:4]
sys.path.insert(0, os.path.dirname(folder))
name = os.path.basename(folder)
ferry, models, types = (importlib.import_module(name + part) for part in ("", ".models", ".types"))


def api(tag, operation):
    return importlib.import_module(f"{name}.api.{tag}.{operation}").sync_detailed


def call(function, *arguments, expected=200, **fields):
    answer = function(*arguments, **fields)
    if answer.status_code != expected:
        sys.exit(f"{answer.status_code} instead of {expected}: {answer.content!r}")
    return answer.parsed


a, b = ferry.Client(base_url=url_a), ferry.Client(base_url=url_b)
content = bytes(range(256)) * 4096
source, target = (call(api("regions", "create_region"), client=client, body=models.CreateRegion(size=len(content)),
                       expected=201) for client in (a, b))
call(api("regions", "put_region_content"), source.id, client=a, body=types.File(payload=io.BytesIO(content)),
     expected=204)

offer = call(api("operations", "create_operation"), client=a, include=models.CreateOperationInclude.METADATA,
             body=models.CreateOperation(kind=models.Kind.READABLE,
                                         descriptors=[models.CreateDescriptor(region=source.id)]), expected=201)
metadata = call(api("operations", "get_operation_metadata"), offer.id, client=a)
read = call(api("operations", "create_operation"), client=b, body=models.CreateOperation(
    kind=models.Kind.READ, descriptors=[models.CreateDescriptor(region=target.id)], remote_metadata=metadata),
            expected=201)
read = call(api("operations", "get_operation"), read.id, client=b, wait_ms=30000)
print(read.status, read.transport, read.duration_us, "us")

if read.status != models.Status.COMPLETE or not read.done:
    sys.exit(f"the read ended as {read}")
batch = call(api("operations", "create_operations"), client=a, body=models.CreateBatch(operations=[
    models.CreateOperation(kind=models.Kind.WRITABLE, descriptors=[models.CreateDescriptor(region=region)])
    for region in (source.id, read.id)])).results
if batch[0].problem or not batch[1].problem or batch[1].problem.code != "not-found":
    sys.exit(f"not an operation and a problem: {batch}")
call(api("operations", "delete_operation"), batch[0].id, client=a, expected=204)
moved = call(api("regions", "get_region_content"), target.id, client=b).payload.read()
for client, region in ((a, source), (b, target)):
    call(api("regions", "delete_region"), region.id, client=client, expected=204)
missing = api("regions", "get_region")(source.id, client=a)
if missing.status_code != 404 or missing.parsed.code != "not-found":
    sys.exit(f"a problem is not understood: {missing}")
print("same" if moved == content else "different")
