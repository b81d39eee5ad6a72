#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts two workers, calls every operation of openapi.yaml, and holds each answer against what the document says:
status, headers, media type, body. A field that the document does not name is a fault, too.

check_answers.py DOCUMENT FERRYD
"""
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request

import yaml

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


class Contract:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.document = yaml.safe_load(file)
        self.operations = {}
        for path_template, item in self.document["paths"].items():
            for method, operation in item.items():
                if method != "parameters":
                    self.operations[operation["operationId"]] = (method.upper(), path_template, operation)

    def resolve(self, node):
        while "$ref" in node:
            target = self.document
            for key in node["$ref"].removeprefix("#/").split("/"):
                target = target[key]
            node = target
        return node

    def faults(self, value, schema, where):
        schema = self.resolve(schema)
        kind = schema["type"]
        if not isinstance(value, TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
            yield f"{where}: {value!r} is not of type {kind}"
            return
        if "enum" in schema and value not in schema["enum"]:
            yield f"{where}: {value!r} is none of {schema['enum']}"
        if kind == "string" and "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{where}: {value!r} does not match {schema['pattern']}"
        if kind == "string" and schema.get("format") == "date-time" and not re.fullmatch(
                r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", value):
            yield f"{where}: {value!r} is not a time"
        if kind == "integer" and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{where}: {value} is out of range"
        if kind == "array":
            for i, element in enumerate(value):
                yield from self.faults(element, schema["items"], f"{where}/{i}")
        if kind == "object":
            for key in schema.get("required", ()):
                if key not in value:
                    yield f"{where}: {key} is missing"
            for key, element in value.items():
                inner = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
                if inner is True:
                    continue
                if not inner:
                    yield f"{where}: {key} is not in the document"
                else:
                    yield from self.faults(element, inner, f"{where}/{key}")

    def type_faults(self, problem, where):
        """The type of a problem leads to a paragraph of /docs, whose anchors are called as here (scripts/make-docs)."""
        anchors = {f"/docs#error-{error['code']}" for error in
                   self.document["components"]["schemas"]["ErrorCode"]["x-ferry-errors"]}
        if problem["type"] not in anchors or not problem["type"].endswith("-" + problem["code"]):
            yield f"{where}: {problem['code']} has the type {problem['type']}"

    def answer_faults(self, name, status, headers, body):
        where = f"{name} {status}"
        responses = self.operations[name][2]["responses"]
        response = responses.get(str(status))
        if response is None:
            response = self.resolve(responses["default"])
            if status not in response["x-ferry-statuses"]:
                yield f"{where}: the document does not know this status"
        response = self.resolve(response)
        for header in ("Request-Id", "Location", "ETag", "Content-Range", "Cache-Control", "Accept-Ranges",
                       "WWW-Authenticate", "Retry-After"):
            documented = response.get("headers", {}).get(header)
            if documented and self.resolve(documented).get("required", True) and header not in headers:
                yield f"{where}: no {header}"
        content = response.get("content")
        if content is None:
            if body:
                yield f"{where}: a body"
            return
        media_type = headers.get_content_type()
        if media_type not in content:
            yield f"{where}: media type {media_type}"
        elif media_type.endswith("json"):
            yield from self.faults(json.loads(body), content[media_type]["schema"], where)
            if media_type == "application/problem+json":
                yield from self.type_faults(json.loads(body), where)


class Worker:
    def __init__(self, ferryd, name, *flags):
        self.process = subprocess.Popen([ferryd, "--listen", "127.0.0.1:0", "--name", name, *(flags or ("--log-level", "warn"))],
                                        stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["http"][0]

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=30)


class Caller:
    def __init__(self, contract):
        self.contract = contract
        self.faults = []
        self.called = set()
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __call__(self, worker, name, expected, identifier="", body=None, query="", **headers):
        method, path, _ = self.contract.operations[name]
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content_Type", "application/json")
        elif body is not None:
            headers.setdefault("Content_Type", "application/octet-stream")
        request = urllib.request.Request(worker.url + path.replace("{id}", identifier) + query, data=body,
                                         method=method, headers={k.replace("_", "-"): v for k, v in headers.items()})
        try:
            answer = self.opener.open(request, timeout=30)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            octets = answer.read()
            self.called.add(name)
            self.faults += self.contract.answer_faults(name, answer.status, answer.headers, octets)
            if answer.status != expected:
                self.faults.append(f"{name}: {answer.status} instead of {expected}: {octets[:300]!r}")
            return json.loads(octets) if answer.headers.get_content_type().endswith("json") and octets else octets


def converse(call, a, b):
    call(b, "createPeer", 201, body={"url": a.url})
    for name in ("getRoot", "getWorker", "getDevices", "getLimits", "getThroughput", "getLivez", "getReadyz", "getMetrics",
                 "getOpenapi", "getOpenapiJson", "getDocs", "getDocsScript", "getPageScript", "getPageStyle"):
        call(a, name, 200)
    for link in call(a, "getRoot", 200)["links"].values():
        with call.opener.open(a.url + link, timeout=30):  # raises where there is nothing
            pass
    call(a, "getWorker", 400, query="?no_such_parameter=1")
    call(a, "getWorker", 421, Host="attacker.example")
    call(a, "getWorker", 403, Origin="http://attacker.example")

    source = call(a, "createRegion", 201, body={"size": 4096, "name": "source"}, Idempotency_Key="k1")["id"]
    call(a, "createRegion", 422, body={"size": 4097}, Idempotency_Key="k1")
    call(a, "createRegion", 400, body={"size": 0})
    call(a, "createRegion", 400, body={"size": 1, "device": "cuda:99"})
    call(a, "createRegion", 415, body=b"{}")
    call(a, "createRegion", 507, body={"size": 2**53 - 1})
    target = call(b, "createRegion", 201, body={"size": 4096, "idle_ms": 600000})["id"]
    call(a, "listRegions", 200, query="?limit=1")
    call(a, "listRegions", 400, query="?limit=0")
    call(a, "getRegion", 200, source)
    call(a, "getRegion", 404, "rgn_0000000000000001")
    call(a, "putRegionContent", 204, source, body=b"x" * 4096)
    call(a, "putRegionContent", 413, source, body=b"x", query="?offset=4096")
    call(a, "getRegionContent", 200, source)
    call(a, "getRegionContent", 206, source, Range="bytes=1-2")
    call(a, "getRegionContent", 416, source, Range="bytes=4096-")

    offer = {"kind": "readable", "descriptors": [{"region": source}]}
    bare = call(a, "createOperation", 201, body=offer)["id"]
    whole = call(a, "createOperation", 201, query="?include=metadata", body=dict(
        offer, ttl_ms=60000, uses=1, label="first", layout="stream"))
    call(a, "createOperation", 400, body={"kind": "readable", "descriptors": [], "no_such_field": 1})
    call(a, "getOperation", 200, bare)
    call(a, "cancelOperation", 412, bare, If_Match="\"r99\"")
    call(a, "getOperation", 304, bare, If_None_Match='"r1"')
    call(a, "getOperation", 404, "op_0000000000000001", query="?wait_ms=60000")
    call(a, "getOperationMetadata", 200, bare)
    call(a, "renewOperation", 200, bare, body={"ttl_ms": 30000})
    call(a, "deleteRegion", 409, source)
    read = {"kind": "read", "descriptors": [{"region": target}], "remote_metadata": whole["metadata"], "verify": True,
            "layout": "stream", "timeout_ms": 30000}
    call(b, "createOperation", 409, body=dict(read, kind="write"))
    reader = call(b, "createOperation", 201, body=read, Prefer="wait=20")["id"]
    call(b, "getOperation", 200, reader, query="?wait_ms=20000&revision=1")
    done = call(b, "getOperation", 200, reader, query="?wait_ms=20000")
    if done["status"] != "COMPLETE":
        call.faults.append(f"the read did not complete: {done}")
    call(b, "getOperationMetadata", 409, reader)
    call(a, "getOperation", 200, whole["id"], query="?wait_ms=20000")
    call(a, "getOperationMetadata", 410, whole["id"])
    again = call(b, "createOperation", 201, body=read, Prefer="wait=20")["id"]
    if call(b, "getOperation", 200, again, query="?wait_ms=20000")["status"] != "ERRORED":
        call.faults.append("metadata could be used twice")
    taken = call(a, "createOperation", 201, query="?include=metadata", body=offer)
    key = {"Authorization": "Bearer " + taken["metadata"]["notification_key"]}
    call(a, "getOperationContent", 403, taken["id"], Authorization="Bearer " + "A" * 43)
    call(a, "getOperationContent", 416, taken["id"], Range="bytes=4096-", **key)
    call(a, "getOperationContent", 206, taken["id"], Range="bytes=0-9", **key)
    call(a, "getOperationContent", 206, taken["id"], Range="bytes=10-4095", **key)
    call(a, "getOperationContent", 409, taken["id"], **key)
    taken = call(a, "createOperation", 201, query="?include=metadata", body=dict(offer, kind="writable"))
    key = {"Authorization": "Bearer " + taken["metadata"]["notification_key"],
           "Ferry-Transfer": "xfr_00000000000000aa"}
    call(a, "putOperationContent", 413, taken["id"], body=b"x" * 4097, **key)
    call(a, "putOperationContent", 204, taken["id"], body=b"x" * 4096, **key)
    if call(a, "deleteOperationContent", 200, taken["id"], **key) != {"status": "COMPLETE"}:
        call.faults.append("an upload was not complete")
    held = call(a, "createOperation", 201, query="?include=metadata", body=dict(offer, renew_max_ms=900000, uses=2))
    key = {"Authorization": "Bearer " + held["metadata"]["notification_key"]}
    call(a, "renewOperation", 200, held["id"], body={"ttl_ms": 800000}, **key)
    call(a, "renewOperation", 403, held["id"], Authorization="Bearer " + "A" * 43)
    call(a, "declineOperation", 403, held["id"], Authorization="Bearer " + "A" * 43)
    call(a, "declineOperation", 401, held["id"])
    call(a, "declineOperation", 200, held["id"], Ferry_Transfer="xfr_00000000000000ab", **key)
    call(a, "getOperation", 200, held["id"])
    if call(a, "declineOperation", 200, held["id"], **key) != {"status": "CANCELLED"}:
        call.faults.append("a declined offer goes on")
    held = call(a, "createOperation", 201, query="?include=metadata", body=dict(offer, renew_max_ms=900000))
    remote = {"remote_metadata": held["metadata"]}
    call(b, "renewRemote", 200, body=dict(remote, ttl_ms=800000))
    call(b, "declineRemote", 200, body=remote)
    call(b, "renewRemote", 410, body=remote)
    call(b, "declineRemote", 400, body={"remote_metadata": {}})
    call(b, "createPeer", 200, body={"url": a.url})
    call(a, "listPeers", 200)
    call(b, "listPeers", 200, query="?limit=1")
    call(b, "listPeers", 400, query="?limit=0")
    call(a, "createPeer", 400, body={"url": a.url})
    call(a, "createPeer", 403, body={"url": "http://192.0.2.1"})
    call(a, "createPeer", 502, body={"url": a.url + "/nothing"})
    call(a, "cancelOperation", 200, bare)
    call(a, "listOperations", 200)
    batch = call(a, "createOperations", 200, query="?include=metadata",
                 body={"operations": [offer, dict(offer, kind="none"), []]})["results"]
    if [result.get("problem", {}).get("code") for result in batch] != [None, "invalid-parameter", "invalid-parameter"]:
        call.faults.append(f"not an operation and two problems: {batch}")
    call(a, "createOperations", 400, body={"operations": []})
    call(a, "listOperations", 200, query=f"?ids={batch[0]['id']},op_0000000000000001&wait_for=any&wait_ms=20000")
    call(a, "deleteOperation", 204, batch[0]["id"])
    row = {"region": source, "size": 16, "count": 3, "stride": 32}
    blocks = {"region": source, "offset": 7, "size": 16, "blocks": [2, 0, 2]}
    shapes = call(a, "createOperation", 201, body={"kind": "readable", "descriptors": [row, blocks]})
    if shapes["descriptors"] != [dict(row, offset=0), blocks]:
        call.faults.append(f"not as it was given: {shapes['descriptors']}")
    call(a, "deleteOperation", 204, shapes["id"])
    stands = call(a, "createOperation", 201, body=dict(offer, unlimited=True))
    older = call(a, "createOperation", 201, body=dict(offer, uses="unlimited"))
    if {**older, **{name: stands[name] for name in ("id", "request_id", "created_at", "expires_at")}} != stands:
        call.faults.append("unlimited is not the same in its two forms")
    for operation in (stands, older):
        call(a, "deleteOperation", 204, operation["id"])
    call(a, "listOperations", 400, query="?kind=none")
    call(a, "deleteOperation", 204, bare)
    call(a, "getOperation", 410, bare)
    told = call(a, "listEvents", 200, query="?limit=1000")
    if {event["type"].split(".")[0] for event in told["events"]} != {"operation", "region", "peer"}:
        call.faults.append("not all that happened is among the events")
    call(a, "listEvents", 200, query=f"?after={told['next']}&wait_ms=1")
    call(a, "listEvents", 400, query="?type=none")
    call(a, "deleteRegion", 204, source)


def main():
    contract = Contract(sys.argv[1])
    call = Caller(contract)
    workers = []
    try:
        workers = [Worker(sys.argv[2], "a")]
        workers.append(Worker(sys.argv[2], "b"))
        converse(call, *workers)
    finally:
        statuses = [worker.stop() for worker in workers]
    call.faults += [f"{name} was not called" for name in contract.operations if name not in call.called]
    call.faults += [f"a worker exited with {status}" for status in statuses if status]
    for fault in call.faults:
        print(fault, file=sys.stderr)
    return 1 if call.faults else 0


if __name__ == "__main__":
    sys.exit(main())
