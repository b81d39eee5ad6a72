#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The two examples at the end of each command's --help, run as they stand but for ids and the URL of a worker."""
import json
import os
import pathlib
import re
import signal
import subprocess
import unittest

from workers import Case, FERRY, LIMIT, environment

OTHER = re.compile(r"(op|rgn)_fedcba9876543210")
ONE = re.compile(r"(op|rgn)_0123456789abcdef")
# What does not end by itself, and a text that it prints before it is ended.
ENDLESS = {"workers --watch": '"event"', "events --follow": "operation.created"}


class Examples(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b, self.c = self.worker("a"), self.worker("b"), self.worker("c")
        self.names("".join(f"{worker.name} {worker.url}\n" for worker in (self.a, self.b, self.c)))
        self.work = self.directory / "work"
        (self.work / "checkpoint").mkdir(parents=True)
        (self.work / "checkpoint" / "weights").write_bytes(os.urandom(10000))
        for name, size in (("weights.bin", 4096), ("cache.bin", 4096), ("page.bin", 65536)):
            (self.work / name).write_bytes(os.urandom(size))
        (self.work / "offer.json").write_text(json.dumps({"kind": "readable", "descriptors": [{"region": self.region(self.a, 4096)}]}))
        path = os.pathsep.join((str(pathlib.Path(FERRY).parent), os.environ["PATH"]))
        self.env = environment(self.directory, PATH=path, FERRY_URL=self.a.url, HOME=str(self.directory))

    def operation(self, worker, size, **fields):
        return worker.offer(self.region(worker, size), **{"renew_max_ms": 86400000, "label": "cache", **fields})

    def shell(self, script):
        process = subprocess.Popen(["bash", "-c", script], cwd=self.work, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        self.started.append(process)
        return process

    def id_for(self, command, script, kind):
        """Of a resource that the example can be run on."""
        where = self.b if f"@b/{kind}_" in script or f"@b {command}" in script and "@a/" not in script else self.a
        if kind == "rgn":
            return self.region(where, 4096, os.urandom(4096))
        if command == "send":
            return self.operation(where, 2 << 20 if "--remote" in script else 4096, kind="writable")["id"]
        if "tar x" in script:
            tar = subprocess.run(["tar", "c", "checkpoint"], cwd=self.work, capture_output=True, check=True).stdout
            region = self.region(where, len(tar), tar)
            return self.operation(where, 1, descriptors=[{"region": region}])["id"]
        operation = self.operation(where, 4096)
        if command == "wait":
            self.ferry("fetch", f"{where.url}/v1/operations/{operation['id']}", "-o", "/dev/null", "-u", self.c.url)
        return operation["id"]

    def prepare(self, command, example):
        if "metadata.json" in example:
            (self.work / "metadata.json").write_text(json.dumps(self.operation(self.a, 4096)["metadata"]))
        if command == "send":
            (self.work / "cache.bin").write_bytes(os.urandom(4096))  # that of accept was larger
        for pattern in (ONE, OTHER):
            kinds = {found[1] for found in pattern.finditer(example)}
            # Of two regions that are copied, the other one is on the other worker.
            script = re.sub(r"\S+_0123456789abcdef", "", example) if pattern is OTHER else re.sub(r"\S+_fedcba9876543210", "", example)
            for kind in kinds:
                made = self.id_for(command, script, kind)
                example = re.sub(rf"{kind}_{pattern.pattern.rsplit('_', 1)[1]}", made, example)
        return example.replace("http://127.0.0.1:9300", self.a.url)

    def use(self, url, count):
        """Takes or gives what an example offers."""
        for _ in range(count):
            operation = json.loads(self.ferry("get", "/v1/operations/" + re.search(r"op_\w+", url)[0], "-u", url.split("/v1")[0])[0])
            if operation["kind"] == "readable":
                self.ferry("fetch", url, "-o", "/dev/null", "-u", self.c.url)
            else:
                size = operation["bytes_total"]
                self.ferry("send", "-", url, "-u", self.c.url, data=bytes(size))

    def run_example(self, command, example):
        script = self.prepare(command, example)
        if command == "workers":  # the registry is another program's
            answer = {"revision": 1, "peers": [{"worker": "a", "epoch": "1", "addresses": {"http": [self.a.url]}}]}
            with self.answering(answer) as url:
                self.env["FERRY_URL"] = url
                self.finish_example(command, script)
                self.env["FERRY_URL"] = self.a.url
            return
        self.finish_example(command, script)

    def finish_example(self, command, script):
        process = self.shell(script)
        if command in ("offer", "accept"):
            self.use(self.line(process), 2 if "--uses 2" in script else 1)
        for endless, text in ENDLESS.items():
            if endless in script:
                while text not in self.line(process):
                    pass
                os.killpg(process.pid, signal.SIGINT)
        self.finish(process)

    def test_every_example_runs(self):
        self.operation(self.a, 4096)  # for lists and events
        commands = re.findall(r"^  (\w+) ", self.ferry("--help")[0].decode().split("Options of every")[0], re.M)
        self.assertGreater(len(commands), 25)
        for command in commands:
            text = self.ferry("help", command)[0].decode()
            examples = [line[2:] for line in text.split("\nExamples:\n")[1].splitlines()]
            self.assertEqual(len(examples), 2, command)
            for example in examples:
                with self.subTest(example):
                    self.assertIn("ferry ", example)
                    self.run_example(command, example)
        self.assertEqual((self.work / "region.bin").stat().st_size, 4096)


if __name__ == "__main__":
    unittest.main(verbosity=2)
