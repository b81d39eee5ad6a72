#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the curl lines of openapi.yaml (x-codeSamples) against two workers, as a reader would paste them, and holds each
answer against the example beside it; so /docs shows what a worker answers. Every example must also fit its schema.

check_samples.py DOCUMENT FERRYD [--print]    --print: shows each answer with the ids and addresses of the examples
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from check_answers import Contract, Worker

A, B = "http://127.0.0.1:9300", "http://127.0.0.1:9301"
SOURCE, TARGET = "rgn_00000000000000a1", "rgn_00000000000000b2"
OFFER, READ, OTHER = "op_00000000000000c3", "op_00000000000000d4", "op_00000000000000e5"
EPOCHS = "9f86d081884c7d65", "60303ae22b998861"
KEY = "3q2-796tvu_erb7v3q2-796tvu_erb7v3q2-796tvu8"
NIXL, PTR = "b64:eJwDAAAAAAE=", "4294967296"
# What differs from run to run or from machine to machine: only its type is compared.
VOLATILE = {"commit", "connect_us", "connected_at", "created_at", "data", "duration_us", "ended_at", "expires_at", "gids",
            "gpu_direct_rdma", "memory", "nixl_metadata", "path", "pid", "ptr", "rdma", "revision", "received", "request_id", "sent", "since",
            "started_at", "time", "transports", "ucx_version", "unused", "uptime_ms", "version",
            "address_connections_max", "connections_max", "mappings_max", "memory_limit", "waiters_max"}

SOMETIMES = {"commit", "connect_us", "model", "rdma_error"}


def differences(example, actual, where):
    if type(example) is not type(actual):
        yield f"{where}: {actual!r} instead of {example!r}"
    elif isinstance(example, dict):
        for key in sorted((set(example) ^ set(actual)) - SOMETIMES):
            yield f"{where}/{key}: only in the {'example' if key in example else 'answer'}"
        for key in sorted(set(example) & set(actual)):
            if key not in VOLATILE:
                yield from differences(example[key], actual[key], f"{where}/{key}")
            elif type(example[key]) is not type(actual[key]):
                yield f"{where}/{key}: {actual[key]!r} instead of {example[key]!r}"
    elif isinstance(example, list):
        if len(example) != len(actual):
            yield f"{where}: {len(actual)} elements instead of {len(example)}"
        for i, (one, other) in enumerate(zip(example, actual)):
            yield from differences(one, other, f"{where}/{i}")
    elif example != actual:
        yield f"{where}: {actual!r} instead of {example!r}"


def examples(contract, content):
    """Those of a body or an answer, by name; "" = its only one."""
    if "example" in content:
        return {"": content["example"]}
    return {name: contract.resolve(one)["value"] for name, one in content.get("examples", {}).items()}


class Story:
    def __init__(self, contract, folder, show):
        self.contract, self.folder, self.show = contract, folder, show
        self.faults, self.ran, self.media = [], set(), []  # media: of the last answer
        self.live = {}  # of what the document has instead
        with open(os.path.join(folder, ".curlrc"), "w", encoding="ascii") as file:
            file.write(f'dump-header = "{folder}/head"\n')

    def bash(self, line):
        """The status of the last answer, and what was printed."""
        for example, live in self.live.items():
            line = line.replace(example, live)
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        ended = subprocess.run(["bash", "-c", line], cwd=self.folder, env=dict(environment, CURL_HOME=self.folder),
                               stdout=subprocess.PIPE, text=True, check=False, timeout=60)
        with open(os.path.join(self.folder, "head"), encoding="latin-1") as file:
            head = file.read()
        self.media = re.findall(r"^Content-Type: ([^;\r\n]+)", head, re.M | re.I)
        return re.findall(r"^HTTP/\S+ (\d+)", head, re.M)[-1] if ended.returncode == 0 else "curl failed", ended.stdout

    def hidden(self, method, url, body=None, **learn):
        """A request that the document does not show. learn: the members of its answer that stand for examples."""
        line = f"curl -s -X {method} '{url}'"
        if body is not None:
            line += f" -H 'Content-Type: application/json' -d '{json.dumps(body)}'"
        status, text = self.bash(line)
        if not status.startswith("2"):
            self.faults.append(f"{method} {url}: {status} {text}")
        self.learn(text, learn)

    def learn(self, text, learn):
        for member, example in learn.items():
            value = json.loads(text)
            for key in member.split("__"):
                value = value[int(key) if key.isdigit() else key]
            self.live[example] = str(value)

    def sample(self, name, label="", **learn):
        """Runs the sample of an operation; the answer must be the example with the same name."""
        where = f"{name} {label}".strip()
        operation = self.contract.operations[name][2]
        found = [one for one in operation.get("x-codeSamples", ()) if one.get("label", "") == label]
        if len(found) != 1:
            self.faults.append(f"{where}: {len(found)} samples")
            return
        self.ran.add((name, label))
        source = found[0]["source"]
        self.check_body(where, operation, source)
        status, text = self.bash(source)
        response = operation["responses"].get(status)
        if not response:
            self.faults.append(f"{where}: {status} {text}")
            return
        self.learn(text, learn)
        for example, live in self.live.items():
            text = text.replace(live, example)
        text = re.sub(r"\b([0-9a-f]{16})-\d+", r"\1-7", text)  # an event's id
        if self.show:
            print(f"# {where}: {status}\n{text}")
        for media, content in self.contract.resolve(response).get("content", {}).items():
            if media not in self.media:
                continue
            shown = examples(self.contract, content)
            if "json" in media and not name.startswith("getOpenapi"):
                example = shown.get(label, next(iter(shown.values()), None))
                self.faults += differences(example, json.loads(text), where)
            elif label in shown and shown[label].strip() != text.strip():
                self.faults.append(f"{where}: {text!r} instead of {shown[label]!r}")

    def check_body(self, where, operation, source):
        sent = re.search(r"-d '(.*?)'", source, re.S)
        if sent:
            content = self.contract.resolve(operation["requestBody"])["content"]["application/json"]
            if json.loads(sent.group(1)) not in examples(self.contract, content).values():
                self.faults.append(f"{where}: what it sends is no example of the body")


def tell(story):
    """One after the other, each with what the ones before it have left."""
    offer = {"kind": "readable", "descriptors": [{"region": SOURCE}]}
    metadata = {"id": OFFER, "metadata__notification_key": KEY, "metadata__nixl_metadata": NIXL}

    def offered(**fields):
        story.hidden("POST", f"{A}/v1/operations?include=metadata", dict(offer, **fields), **metadata)
        descriptor = json.loads(story.bash(f"curl -s {A}/v1/operations/{OFFER}/metadata")[1])["descriptors"][0]
        story.live[PTR] = str(descriptor["ptr"])

    for url, epoch in zip((A, B), EPOCHS):
        story.hidden("GET", f"{url}/v1/worker", epoch=epoch)
    for name in ("getRoot", "getWorker", "getDevices", "getLimits", "getThroughput", "getLivez", "getReadyz", "getOpenapi",
                 "getOpenapiJson", "getDocs", "getDocsScript", "getPageScript", "getPageStyle"):
        story.sample(name)
    story.sample("createRegion", "region", id=SOURCE)
    story.hidden("POST", f"{B}/v1/regions", {"size": 1048576}, id=TARGET)
    story.sample("getRegion", "region")
    story.sample("listRegions")
    story.sample("putRegionContent")
    story.sample("getRegionContent")
    story.sample("getMetrics")
    story.sample("createPeer", "connected")
    story.sample("createPeer", "reused")
    story.sample("createOperation", "readable", id=OFFER)
    story.sample("getOperationMetadata", "readable", nixl_metadata=NIXL, notification_key=KEY)
    story.sample("listOperations", "page")
    story.sample("listOperations", "ids")
    story.sample("createOperation", "read_by_url", id=READ)
    story.sample("getOperation", "complete")
    story.sample("listEvents")
    story.sample("listPeers")
    story.sample("deleteOperation")
    story.sample("createOperations", "batch", results__0__id=OFFER)
    offered(ttl_ms=60000)
    story.sample("renewOperation", "readable")
    story.sample("cancelOperation", "cancelled")
    offered(renew_max_ms=900000)
    story.sample("renewRemote", "answer")
    story.sample("declineRemote", "answer")
    offered()
    story.sample("declineOperation", "declined")
    offered()
    story.sample("getOperationContent")
    offered(kind="writable", descriptors=[{"region": SOURCE, "size": 5}])
    story.sample("putOperationContent")
    story.sample("deleteOperationContent")
    story.hidden("POST", f"{A}/v1/regions", {"size": 1}, id=SOURCE)  # the first one is in use
    story.sample("deleteRegion")


def misfits(contract):
    """Examples that do not fit their schemas."""
    for name, (_, _, operation) in contract.operations.items():
        bodies = [("body", operation["requestBody"])] if "requestBody" in operation else []
        for what, node in [*bodies, *operation["responses"].items()]:
            for media, content in contract.resolve(node).get("content", {}).items():
                if "json" in media:
                    for label, example in examples(contract, content).items():
                        yield from contract.faults(example, content["schema"], f"{name} {what} {label}")


def main():
    contract = Contract(sys.argv[1])
    workers = []
    with tempfile.TemporaryDirectory(prefix="ferry-samples-") as folder:
        story = Story(contract, folder, "--print" in sys.argv)
        story.faults += misfits(contract)
        try:
            for name, url in (("worker-a", A), ("worker-b", B)):
                workers.append(Worker(sys.argv[2], name, "--local", folder, "--data-listen", "127.0.0.1:0",
                                      "--log-level", "error"))
                story.live[url] = workers[-1].url
            tell(story)
        finally:
            statuses = [worker.stop() for worker in workers]
    for name, (_, _, operation) in contract.operations.items():
        for one in operation.get("x-codeSamples", [{}]):
            if (name, one.get("label", "")) not in story.ran:
                story.faults.append(f"no sample of {name} {one.get('label', '')} was run")
    story.faults += [f"a worker exited with {status}" for status in statuses if status]
    print("\n".join(story.faults) or f"{len(story.ran)} samples", file=sys.stderr)
    return 1 if story.faults else 0


if __name__ == "__main__":
    sys.exit(main())
