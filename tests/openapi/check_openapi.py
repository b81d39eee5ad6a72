#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares openapi.yaml with the tables that the program openapi-tables prints, both ways.

check_openapi.py [--lie] DOCUMENT PROGRAM

With --lie it changes the document in many ways and fails unless each lie is found out.
"""
import copy
import re
import subprocess
import sys

import yaml

METHODS = {"get", "put", "post", "delete", "head", "options", "patch", "trace"}
ENUMS = ("Kind", "Status", "Layout")


def read_tables(program):
    tables = {}
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        name, *fields = line.split("\t")
        tables.setdefault(name, []).append(tuple(fields))
    return tables


def resolve(document, node):
    while isinstance(node, dict) and "$ref" in node:
        target = document
        for key in node["$ref"].removeprefix("#/").split("/"):
            target = target[key.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                yield path, method, operation, item


def auth_of(document, operation):
    ways = operation.get("security", document["security"])
    names = {name for way in ways for name in way}
    if not names:
        return "none"
    if "notification_key" in names:
        return "full-or-key" if {} in ways else "key"
    return "peer" if "peer_token" in names else "metrics" if "metrics_token" in names else "full"


def body_of(operation):
    body = operation.get("requestBody")
    if body is None:
        return "none"
    if list(body["content"]) == ["application/json"]:
        return "json" if body.get("required") else "optional-json"
    return "stream" if list(body["content"]) == ["application/octet-stream"] else "?"


def two_ways(what, documented, actual):
    for entry in sorted(documented - actual):
        yield f"{what} only in openapi.yaml: {entry}"
    for entry in sorted(actual - documented):
        yield f"{what} not in openapi.yaml: {entry}"


def check_routes(document, tables):
    documented, in_query = set(), set()
    for path, method, operation, item in operations(document):
        documented.add((method.upper(), path, operation["operationId"], auth_of(document, operation),
                        body_of(operation)))
        parameters = [resolve(document, p) for p in item.get("parameters", []) + operation.get("parameters", [])]
        in_query |= {(operation["operationId"], p["name"]) for p in parameters if p["in"] == "query"}
        in_path = {p["name"] for p in parameters if p["in"] == "path"}
        yield from two_ways(f"path parameter of {path}", in_path, set(re.findall(r"{(\w+)}", path)))
    yield from two_ways("query parameter", in_query, set(tables["parameter"]))
    yield from two_ways("route", documented, set(tables["route"]))
    if len(tables["route"]) != len(set(tables["route"])):
        yield "the route table has an entry twice"


def check_errors(document, tables):
    schema = document["components"]["schemas"]["ErrorCode"]
    listed = {(e["code"], str(e["status"]), str(e["retryable"]).lower(), e["title"]) for e in schema["x-ferry-errors"]}
    yield from two_ways("error", listed, set(tables["error"]))
    explained = {e["code"] for e in schema["x-ferry-errors"] if e.get("cause") and e.get("cure")}
    yield from (f"error {code} has no cause and cure" for code in sorted({e["code"] for e in schema["x-ferry-errors"]} - explained))
    if "enum" in schema:
        yield "ErrorCode is closed: clients would not take the codes of later workers"

    statuses = set()
    for path, method, operation, _ in operations(document):
        for status, response in operation["responses"].items():
            response = resolve(document, response)
            if status == "default":
                statuses |= set(map(str, response["x-ferry-statuses"]))
                unnamed = set(response["x-ferry-statuses"]) - set(map(int, re.findall(r"\((\d{3})", response["description"])))
                yield from (f"the default response does not name the code of {status}" for status in sorted(unnamed))
            elif status >= "400":
                statuses.add(status)
                if list(response["content"]) != ["application/problem+json"]:
                    yield f"{method} {path}: {status} is not a problem"
        if "default" not in operation["responses"]:
            yield f"{method} {path}: no default response"
    yield from two_ways("status", statuses, {e[1] for e in tables["error"]} - {"0"})


def check_responses(document, _):
    """Each response component names exactly the errors that have its status."""
    by_code = {}
    for error in document["components"]["schemas"]["ErrorCode"]["x-ferry-errors"]:
        by_code.setdefault(error["code"], set()).add(error["status"])
    used = {}
    for _, _, operation, _ in operations(document):
        for status, response in operation["responses"].items():
            if "$ref" in response and status != "default":
                used.setdefault(response["$ref"].rsplit("/", 1)[1], set()).add(int(status))
    for name, response in document["components"]["responses"].items():
        codes = re.findall(r"`([a-z]+(?:-[a-z]+)*)`", response["description"])
        for status in used.get(name, ()):
            actual = {code for code, of_code in by_code.items() if status in of_code}
            yield from two_ways(f"code of response {name}", set(codes), actual)
            example = response["content"]["application/problem+json"]["example"]
            if example["status"] != status or status not in by_code.get(example["code"], ()):
                yield f"response {name}: the example is not {status}"


def check_enums(document, tables):
    for name in ENUMS:
        values = set(document["components"]["schemas"][name]["enum"])
        yield from two_ways(name, values, {v[0] for v in tables[name]})


def check_generators(document, _):
    """What generators of clients stumble over: defaults, which they send or demand, objects without a name, and choices
    of schemas, of which each makes something else or nothing that compiles."""
    def walk(node, where, depth):
        if isinstance(node, dict):
            if "default" in node and not where.startswith("/paths"):
                yield f"{where}: a default"
            yield from (f"{where}: {word}" for word in ("oneOf", "anyOf", "allOf", "not", "discriminator") if word in node)
            if depth and node.get("type") == "object" and "properties" in node:
                yield f"{where}: an object without a name"
            for key, value in node.items():
                if key not in ("example", "examples", "x-ferry-errors"):
                    yield from walk(value, f"{where}/{key}", depth + 1)
        elif isinstance(node, list):
            for i, value in enumerate(node):
                yield from walk(value, f"{where}/{i}", depth + 1)
    for kind in ("schemas", "parameters", "headers"):
        for name, node in document["components"][kind].items():
            yield from walk(node, f"/components/{kind}/{name}", 0)
    for path, method, operation, _ in operations(document):
        for status, response in operation["responses"].items():
            for media in resolve(document, response).get("content", {}).values():
                yield from walk(media["schema"], f"{method} {path} {status}", 1)


def check(document, tables):
    complaints = []
    for function in (check_routes, check_errors, check_responses, check_enums, check_generators):
        complaints += function(document, tables)
    return complaints


LIES = {
    "a path that is not there": lambda d: d["paths"].update({"/v1/nothing": {"get": d["paths"]["/livez"]["get"]}}),
    "a path left out": lambda d: d["paths"].pop("/metrics"),
    "a method left out": lambda d: d["paths"]["/v1/operations"].pop("post"),
    "another operationId": lambda d: d["paths"]["/livez"]["get"].update(operationId="getLife"),
    "no token needed": lambda d: d["paths"]["/v1/operations"]["post"].update(security=[]),
    "peer token forgotten": lambda d: d["paths"]["/v1/operations/{id}/metadata"]["get"].pop("security"),
    "body left out": lambda d: d["paths"]["/v1/operations"]["post"].pop("requestBody"),
    "optional body required": lambda d: d["paths"]["/v1/operations/{id}/renew"]["post"]["requestBody"].update(
        required=True),
    "path parameter left out": lambda d: d["paths"]["/v1/regions/{id}"].pop("parameters"),
    "query parameter left out": lambda d: d["paths"]["/v1/regions"]["get"]["parameters"].pop(),
    "code left out": lambda d: d["components"]["schemas"]["ErrorCode"]["x-ferry-errors"].pop(),
    "code invented": lambda d: d["components"]["schemas"]["ErrorCode"]["x-ferry-errors"].append(
        {"code": "teapot", "status": 400, "retryable": False, "title": "The worker is a teapot"}),
    "cure left out": lambda d: d["components"]["schemas"]["ErrorCode"]["x-ferry-errors"][0].pop("cure"),
    "codes closed": lambda d: d["components"]["schemas"]["ErrorCode"].update(enum=["gone"]),
    "a default of a request": lambda d: d["components"]["schemas"]["CreateOperation"]["properties"]["readers"].update(
        default=1),
    "a default of a parameter": lambda d: d["components"]["parameters"]["WaitMs"]["schema"].update(default=0),
    "a choice of schemas": lambda d: d["components"]["schemas"]["CreateOperation"]["properties"].update(
        uses={"oneOf": [{"type": "integer"}, {"type": "string"}]}),
    "a choice of schemas in an answer": lambda d: d["paths"]["/v1/operations"]["post"]["responses"]["201"]["content"][
        "application/json"].update(schema={"oneOf": [{"type": "object"}]}),
    "an object without a name": lambda d: d["components"]["schemas"]["Worker"]["properties"]["addresses"].update(
        {"type": "object", "properties": {}}),
    "another status": lambda d: d["components"]["schemas"]["ErrorCode"]["x-ferry-errors"][0].update(status=418),
    "another retryable": lambda d: d["components"]["schemas"]["ErrorCode"]["x-ferry-errors"][0].update(retryable=True),
    "status of no error": lambda d: d["paths"]["/livez"]["get"]["responses"].update(
        {"418": {"$ref": "#/components/responses/NotFound"}}),
    "status left out": lambda d: [o["responses"].pop("416", None) for _, _, o, _ in operations(d)],
    "response of another status": lambda d: d["paths"]["/v1/regions/{id}"]["get"]["responses"].update(
        {"404": {"$ref": "#/components/responses/Gone"}}),
    "code left out of the default": lambda d: d["components"]["responses"]["Problem"].update(description="Any other"),
    "code left out of a response": lambda d: d["components"]["responses"]["Gone"].update(description="`gone`"),
    "kind left out": lambda d: d["components"]["schemas"]["Kind"]["enum"].remove("write"),
    "status name invented": lambda d: d["components"]["schemas"]["Status"]["enum"].append("FAILED"),
}


def main():
    arguments = sys.argv[1:]
    lie = arguments[0] == "--lie"
    path, program = arguments[lie:]
    with open(path, encoding="utf-8") as file:
        document = yaml.safe_load(file)
    tables = read_tables(program)

    complaints = check(document, tables)
    if lie:
        truth, complaints = set(complaints), []
        for name, change in LIES.items():
            changed = copy.deepcopy(document)
            change(changed)
            if not set(check(changed, tables)) - truth:
                complaints.append(f"not noticed: {name}")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
