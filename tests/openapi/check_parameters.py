#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends what openapi.yaml forbids: in every operation, each query parameter, header, id and field of the body with wrong
types, values beyond each bound, unknown names and missing ones; every method that a path does not have; and tokens that
do not do. The worker has to name the place of each fault, and to be at the end as it was.

check_parameters.py DOCUMENT FERRYD
"""
import copy
import http.client
import json
import os
import re
import sys
import tempfile
import urllib.parse

from check_answers import Contract, Worker

JSON = {"null": "null", "boolean": "true", "integer": "1", "number": "1.5", "string": '"x"', "array": "[1]",
        "object": '{"a":1}'}
WIDE = [2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64 + 1, 2**128 + 1, -2**63, -10**23]
UNKNOWN = ["colour", "", "a/b~c"]
IDS = ["x", "rgn_1", "rgn_000000000000000g", "op_00000000000000001", "op_0000000000000001", "rgn_0000000000000001",
       "rgn_" + 8000 * "a"]
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW", "get"]
MEDIA = [None, "", "text/plain", "text/json", "application/jsonp", "application", "text/plain; application/json",
         "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
BODIES = [("\n\n", "invalid-json"), ("{", "invalid-json"), ("{}x", "invalid-json"),
          ("{}\0", "invalid-json"), ("[[[[[[[[[1]]]]]]]]]", "invalid-json"), ('{"\xff":1}', "invalid-json"),
          *((text, "invalid-parameter") for text in ("[]", "1", '"x"', "true", "null", "-0"))]
# Largest values that the document leaves to GET /v1/limits.
LIMITS = {"ttl_ms": "ttl_ms_max", "renew_max_ms": "ttl_ms_max", "idle_ms": "ttl_ms_max", "timeout_ms": "timeout_ms_max",
          "uses": "uses_max", "readers": "readers_max", "count": "descriptors_max", "descriptors": "descriptors_max",
          "remote": "descriptors_max"}
NO_URLS = ["not a url", "//127.0.0.1/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "http://u:p@127.0.0.1:1/v1"]
# Texts whose grammar the document has in words only.
WORDS = {"ids": ["%ff"], "type": ["none", "operation.ended,none", ""], "device": ["gpu", "CPU", "cuda:99", "cpu "],
         "name": ["a\nb", "\x7f"], "url": [*NO_URLS, "unix:/tmp/x", "http://127.0.0.1:1/?x=y", "http://127.0.0.1:1/#x"],
         "remote_url": [*NO_URLS, "http://", "http://127.0.0.1:1/v1/worker", "http://127.0.0.1:1/v1/operations"]}
ABSENT = "http://127.0.0.1:1/v1/operations/op_0000000000000001/metadata"
# Codes of texts that are no values of their fields.
CODES = {"device": "unknown-device", "region": "not-found"}


def escape(key):
    return str(key).replace("~", "~0").replace("/", "~1")


def pointer_of(keys):
    return "".join("/" + escape(key) for key in keys)


def with_value(document, keys, text):
    """The JSON of a document with another value at a place; None = without it."""
    document = copy.deepcopy(document)
    node = document
    for key in keys[:-1]:
        node = node[key]
    if text is None:
        node.pop(keys[-1], None)
        return json.dumps(document)
    node[keys[-1]] = "@@"
    return json.dumps(document).replace('"@@"', text)


class Parameters:
    def __init__(self, contract, worker):
        self.contract, self.worker, self.faults, self.asked = contract, worker, [], 0
        self.connection = http.client.HTTPConnection(worker.url.removeprefix("http://"), timeout=30)
        self.limits = {}

    def ask(self, method, target, headers=(), body=None):
        self.asked += 1
        self.connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers:
            self.connection.putheader(name, value)
        if body is not None:
            self.connection.putheader("Content-Length", len(body))
        self.connection.endheaders(body)
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def get(self, target):
        return json.loads(self.ask("GET", target)[2])

    def make(self, target, **fields):
        status, _, body = self.ask("POST", target, [("Content-Type", "application/json")], json.dumps(fields).encode())
        assert status == 201, body
        return json.loads(body)

    # ---- what is wrong of one value ----

    def bounds(self, name, schema):
        return schema.get("minimum"), schema.get("maximum", schema.get("maxItems", self.limits.get(LIMITS.get(name))))

    def wrong_texts(self, name, schema):
        """Those that fit by chance are left out."""
        if "enum" in schema:
            yield from ("", "none", str(schema["enum"][0]).swapcase() + " ", schema["enum"][0] + " ")
        if "pattern" in schema:
            yield from (text for text in ("", "x", "\u00e9") if not re.fullmatch(schema["pattern"], text))
        if "maxLength" in schema:
            yield from WORDS.get(name, ())
            yield "x" * (schema["maxLength"] + 1)
            yield "\u00e9" * (schema["maxLength"] // 2 + 1)
        if schema.get("minLength"):
            yield ""

    def wrong_json(self, name, schema):
        """(whole value in JSON, code)"""
        kind, texts = schema["type"], [text for other, text in JSON.items() if other != schema["type"]]
        least, most = self.bounds(name, schema)
        if kind == "integer":
            texts += ["1.0", "1e0", "1e999", "NaN", *(["-0"] if least else [])]
            texts += map(str, (max(schema["enum"]) + 1, 0) if least is None else [*WIDE, least - 1])
            texts += [str(most + 1)] if most else []
        if kind == "array" and schema.get("minItems"):
            texts.append("[]")
        if kind == "array" and most:
            texts.append(json.dumps([0] * (most + 1)))
        yield from ((text, "invalid-parameter") for text in texts)
        if kind == "string":
            yield from ((json.dumps(text), CODES.get(name, "invalid-parameter")) for text in self.wrong_texts(name, schema))

    def wrong_bodies(self, base, schema, keys, value):
        """(body, keys of the fault, code) for every place of a body."""
        schema = self.contract.resolve(schema)
        name = next((key for key in reversed(keys) if isinstance(key, str)), "")
        if keys:
            for text, code in self.wrong_json(name, schema):
                yield with_value(base, keys, text), keys, code
        if schema["type"] == "array":
            yield from self.wrong_bodies(base, schema["items"], [*keys, len(value) - 1], value[-1])
        if schema["type"] == "object":
            for key in [*UNKNOWN, *(key.capitalize() for key in schema["properties"])]:
                yield with_value(base, [*keys, key], "1"), [*keys, key], "unknown-field"
            for key in schema.get("required", ()):
                yield with_value(base, [*keys, key], None), [*keys, key], "invalid-parameter"
            for key, inner in schema["properties"].items():
                if key in value:
                    yield from self.wrong_bodies(base, inner, [*keys, key], value[key])

    def edges(self, base, schema):
        """Bodies with a value that is just allowed."""
        for key, inner in self.contract.resolve(schema)["properties"].items():
            least, most = self.bounds(key, inner)
            values = [least, *([] if key == "size" else [most])] if inner.get("type") == "integer" else []
            if "maxLength" in inner and key != "device":
                values = ["x" * inner["maxLength"], "\u00e9" * (inner["maxLength"] // 2)]
            yield from (dict(base, **{key: value}) for value in values if key in base and value)

    def wrong_query(self, name, schema, description):
        kind = schema["type"]
        yield from ("", None)
        if kind == "boolean":
            yield from ("1", "True", "yes")
        if kind == "integer":
            least = schema["minimum"]
            yield from ("x", "1.5", "1e2", "0x10", "%201", "+1", "-1", str(least - 1))
            if "capped" not in description:
                yield from map(str, WIDE)
        if kind == "string":
            for text in [*self.wrong_texts(name, schema), *WORDS.get(name, ())]:
                yield urllib.parse.quote(text, safe="%")


    # ---- requests ----

    def refused(self, name, method, target, headers, body, code="invalid-parameter", status=400, pointer=None, word=""):
        """pointer: of the only fault in the body; word: one that the detail has."""
        got, answered, text = self.ask(method, target, headers, body)
        self.faults += self.contract.answer_faults(name, got, answered, text)
        problem = json.loads(text) if "json" in answered.get_content_type() else {}
        if got == 200 and "results" in problem:
            problem = problem["results"][-1].get("problem", {})
            got = problem.get("status")
        places = [error["pointer"] for error in problem.get("errors", ())]
        if (got, problem.get("code")) != (status, code) or pointer not in (None, *places) or len(places) > 1 or (
                word not in problem["detail"]):
            self.faults.append(f"{method} {target} {headers} {(body or b'')[:300]!r}: {status} {code} {pointer} {word} "
                               f"expected, not {got} {places} {problem}")

    def taken(self, target, headers, body):
        status, answered, text = self.ask("POST", target, headers, json.dumps(body).encode())
        if status != 201:
            self.faults.append(f"{body} is refused: {text}")
        else:
            self.ask("DELETE", answered["Location"])

    def head(self, target):
        """HEAD has the head of GET; what came behind it would be taken for the next answer."""
        heads = []
        for method in ("GET", "HEAD"):
            status, headers, _ = self.ask(method, target)
            fleeting = {"Date", "Request-Id", *(["Content-Length"] if target in ("/metrics", "/v1/worker") else [])}
            heads.append((status, [item for item in headers.items() if item[0] not in fleeting]))
        if heads[0] != heads[1]:
            self.faults.append(f"{target}: the heads of GET and HEAD differ: {heads}")

    def check_path(self, template, target):
        """target: with ids that exist."""
        item = self.contract.document["paths"][template]
        methods = {method.upper() for method in item} - {"PARAMETERS"} | ({"HEAD"} if "get" in item else set())
        for method in set(METHODS) - methods:
            status, headers, _ = self.ask(method, target, body=b"")
            if status != 405 or headers["Allow"] != ", ".join(sorted(methods, key=METHODS.index)):
                self.faults.append(f"{method} {target}: {status}, Allow: {headers['Allow']}")
        if "get" in item:
            for query in ("?x=1", *([""] if item["get"]["operationId"] != "getOperationContent" else [])):
                self.head(target + query)

    def check_operation(self, name, target, bodies, own):
        """bodies: good ones; own: headers of each request."""
        method, template, operation = self.contract.operations[name]
        parameters = [self.contract.resolve(one) for one in (
            *self.contract.document["paths"][template].get("parameters", ()), *operation.get("parameters", ()))]
        content = self.contract.resolve(operation.get("requestBody", {})).get("content", {})
        media = next(iter(content), None)
        headers = [*own, *([("Content-Type", media)] if media else [])]
        good = None if not media else json.dumps(bodies[0]).encode() if "json" in media else b"x"

        def refused(query="", more=(), body=good, **expected):
            self.refused(name, method, target + query, [*headers, *more], body, **expected)

        if "{id}" in template:
            for text in IDS:
                self.refused(name, method, template.replace("{id}", text), headers, good, "not-found", 404)
        queries = {one["name"]: one for one in parameters if one["in"] == "query"}
        known = self.contract.document["components"]["parameters"].values()
        others = {one["name"] for one in known if one["in"] == "query"}
        for text in ("x=1", "x", "%00", "a=%00", "=5", *(f"{word}=1" for word in others - set(queries)), *(
                f"{word.upper()}=1" for word in queries)):
            refused("?" + text)
        for word, one in queries.items():
            schema = self.contract.resolve(one["schema"])
            for text in self.wrong_query(word, schema, one["description"]):
                refused(f"?{word}" + ("" if text is None else f"={text}"), word="" if name == "listEvents" else word)
            if word == "limit" and self.ask(method, f"{target}?limit={2**64 + 1}")[0] != 200:
                self.faults.append(f"{name}: a limit that is capped is refused")
            refused(f"?{word}=1%00")
            refused(f"?{word}=1&{word}=1")
        for one in parameters:
            if one["in"] == "header" and "pattern" in one["schema"]:
                for text in self.wrong_texts(one["name"], one["schema"]):
                    refused(more=[(one["name"], text.encode())], word=one["name"])
                refused(more=[(one["name"], text) for text in "ab"])
        if media:
            for text in MEDIA if "json" in media else ["text/plain", "application/json"]:
                self.refused(name, method, target, [*own, *([("Content-Type", text)] if text is not None else [])], good,
                             "unsupported-media-type", 415)
        if media == "application/json":
            for text, code in BODIES:
                refused(body=text.encode("latin-1"), code=code, pointer="", word="byte" if code == "invalid-json" else "")
            if operation["requestBody"]["required"]:
                for more in (headers, own):
                    self.refused(name, method, target, more, b"", "invalid-json", pointer="")
            for base in bodies:
                for body, keys, code in self.wrong_bodies(base, content[media]["schema"], [], base):
                    refused(body=body.encode(), status=404 if code == "not-found" else 400, pointer=pointer_of(keys),
                            code="invalid-metadata" if "remote_metadata" in keys[:-1] else code)
                if name in ("createRegion", "createOperation") and base.get("kind") != "read" and "remote_url" not in base:
                    for body in self.edges(base, content[media]["schema"]):
                        self.taken(target, headers, body)


def check_tokens(contract, ferryd):
    """With each token, what `security` says, and nothing else. Returns the faults."""
    with tempfile.TemporaryDirectory() as folder:
        flags = []
        for name in ("token", "peer_token", "metrics_token"):
            flags += [f"--{name.replace('_', '-')}-file", os.path.join(folder, name)]
            with open(flags[-1], "w", encoding="ascii", opener=lambda path, how: os.open(path, how, 0o600)) as file:
                file.write(f"the-{name}-of-the-worker")
        worker = Worker(ferryd, "guarded", *flags, "--log-level", "warn")
        p = Parameters(contract, worker)
        for name, (method, path, operation) in contract.operations.items():
            security = operation.get("security", contract.document["security"])
            allowed = {scheme for one in security for scheme in one}
            target = path.replace("{id}", f"{'rgn' if 'regions' in path else 'op'}_0000000000000001")
            for token in (None, "no_token", "token", "peer_token", "metrics_token"):
                own = [("Authorization", f"Bearer the-{token}-of-the-worker")] if token else []
                if not security or token in allowed:
                    status, _, text = p.ask(method, target, own, b"")
                    if status in (401, 403):
                        p.faults.append(f"{method} {target} with {token}: {text}")
                elif token in (None, "no_token"):
                    p.refused(name, method, target, own, b"", "unauthenticated", 401)
                else:
                    p.refused(name, method, target, own, b"", "forbidden", 403)
        if worker.stop():
            p.faults.append("the worker with tokens failed")
        return p.faults


def main():
    contract = Contract(sys.argv[1])
    worker = Worker(sys.argv[2], "a")
    p = Parameters(contract, worker)
    p.limits = p.get("/v1/limits")
    source, target = (p.make("/v1/regions", size=600000)["id"] for _ in range(2))
    offer = p.make("/v1/operations?include=metadata", kind="readable", descriptors=[{"region": source}])
    sink = p.make("/v1/operations?include=metadata", kind="writable", descriptors=[{"region": target}])
    metadata = offer["metadata"]
    row = {"region": source, "offset": 0, "size": 2, "count": 2, "stride": 2}
    blocks = {"region": source, "offset": 0, "size": 2, "blocks": [1, 2]}
    passive = [{"kind": "readable", "descriptors": [{"region": source}, row], "layout": "stream", "label": "x", "uses": 2,
                "ttl_ms": 1, "renew_max_ms": 1},
               {"kind": "readable", "descriptors": [{"region": source}, blocks], "unlimited": True},
               {"kind": "readable", "descriptors": [row], "readers": 2}]
    active = [{"kind": "read", "descriptors": [{"region": target, "size": 8}], "remote_metadata": metadata,
               "remote": [{"offset": 0, "size": 4}, {"offset": 4, "size": 4}], "transports": ["shm", "tcp"], "verify": True,
               "relay": True, "timeout_ms": 1},
              {"kind": "write", "descriptors": [{"region": target}], "remote_url": ABSENT}]
    bodies = {"createRegion": [{"size": 1, "device": "cpu", "name": "x", "sealed": True, "idle_ms": 1}],
              "createOperation": passive + active,
              "createOperations": [{"operations": [[], one]} for one in passive + active],
              "declineRemote": [{"remote_metadata": metadata}],
              "renewRemote": [{"remote_metadata": metadata, "ttl_ms": 1}],
              "renewOperation": [{"ttl_ms": 1}],
              "createPeer": [{"url": "http://127.0.0.1:1"}]}
    lists = ("/v1/regions", "/v1/operations", "/v1/peers")
    before = [p.get(path) for path in lists]
    for name, (method, path, _) in contract.operations.items():
        operation = sink if method == "PUT" else offer
        live = path.replace("{id}", source if "regions" in path else operation["id"])
        key = [("Authorization", "Bearer " + operation["metadata"]["notification_key"])] if "{id}/" in path else []
        p.check_operation(name, live, bodies.get(name, [None]), key)
        p.check_path(path, live)
    for ours, theirs in ((passive[0], active), (active[0], passive)):
        for other in theirs:
            for key in set(other) - set(ours) - {"layout", "label"}:
                p.refused("createOperation", "POST", "/v1/operations", [("Content-Type", "application/json")],
                          json.dumps(dict(ours, **{key: other[key]})).encode(), pointer="/" + key)
    after = [p.get(path) for path in lists]
    if before != after:
        p.faults.append(f"the worker is not as it was: {before} {after}")
    if worker.stop():
        p.faults.append("the worker failed")
    p.faults += check_tokens(contract, sys.argv[2])
    print("\n".join(p.faults) or f"{p.asked} requests", file=sys.stderr)
    return 1 if p.faults else 0


if __name__ == "__main__":
    sys.exit(main())
