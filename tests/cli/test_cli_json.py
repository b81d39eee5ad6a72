#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--json in one form in every command: a document indented by two blanks, or a line for each of a stream; errors as lines."""
import json
import os
import re
import unittest

from workers import Case

ABSENT = "http://127.0.0.1:1"  # nobody listens there
NOBODYS = ABSENT + "/v1/operations/op_0123456789abcdef/metadata"
SIZE = 4096

# Every command: the form of what it prints, its arguments, and those that fail where they are others. $REGION, $OFFER, …
# are made for the row.
COMMANDS = {
    "offer": ("lines", "$FILE"),
    "fetch": ("document", "$OFFER -o $OUTPUT"),
    "accept": ("lines", f"-o $OUTPUT --size {SIZE}"),
    "send": ("document", "$FILE $WRITABLE"),
    "copy": ("nothing", "$FILE $REGION"),
    "spread": ("document", "$FILE $OTHER"),
    "decline": ("document", "$OFFER", NOBODYS),
    "renew": ("document", "$OFFER --ttl 20m", NOBODYS),
    "ls": ("document", ""),
    "show": ("document", "$REGION"),
    "wait": ("lines", "$ENDED"),
    "cancel": ("nothing", "$OPERATION"),
    "rm": ("nothing", "$OPERATION"),
    "regions": ("document", ""),
    "peers": ("document", ""),
    "workers": ("document", ""),
    "connect": ("document", "$OTHER"),
    "devices": ("document", ""),
    "events": ("lines", ""),
    "top": ("lines", ""),
    "bench": ("document", f"$OTHER --size {SIZE}"),
    "doctor": ("document", "$OTHER"),
    "get": ("document", "/v1/worker"),
    "post": ("document", '/v1/regions {"size":1}'),
    "put": ("nothing", "/v1/regions/$REGION/content $FILE"),
    "delete": ("nothing", "/v1/regions/$REGION"),
    "completion": ("text", "bash", "nonsense"),
    "help": ("text", "ls", "nonsense"),
    "version": ("document", "", "more"),
}
# The same commands where others of their arguments give another form, or an empty one.
MORE = (("copy", "document", "$REGION $FAR"), ("ls", "document", "--kind write"), ("wait", "lines", "$ENDED $ENDED"), ("workers --watch", "lines", ""),
        ("events", "lines", "--label nobody's"), ("get", "bytes", "/v1/regions/$REGION/content"), ("get", "bytes", "/metrics"))


def document(value):
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def line(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Json(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = self.worker("a"), self.worker("b")
        self.source = self.file("source", SIZE)

    def operation(self, kind):
        return self.a.offer(self.region(self.a, SIZE), kind=kind, renew_max_ms=86400000)["id"]

    def offer(self, kind):
        return f"{self.a.url}/v1/operations/{self.operation(kind)}/metadata"

    def ended(self):
        operation = self.operation("readable")
        self.ferry("fetch", f"{self.a.url}/v1/operations/{operation}", "-o", os.devnull, "-u", self.b.url)
        return operation

    def fill_in(self, arguments):
        made = {"$FILE": lambda: str(self.source), "$OUTPUT": lambda: str(self.directory / "target"), "$OTHER": lambda: self.b.url,
                "$REGION": lambda: self.region(self.a, SIZE), "$OPERATION": lambda: self.operation("readable"),
                "$OFFER": lambda: self.offer("readable"), "$WRITABLE": lambda: self.offer("writable"), "$ENDED": self.ended,
                "$FAR": lambda: f"{self.b.url}/v1/regions/{self.region(self.b, SIZE)}"}
        return [re.sub(r"\$[A-Z]+", lambda name: made[name[0]](), word) for word in arguments.split()]

    def has_form(self, form, text):
        if form == "nothing":
            self.assertEqual(text, "")
        elif form == "document":
            empty = re.sub(r"\[\s*\]", "[]", re.sub(r"\{\s*\}", "{}", text))  # json-c's depend on its version
            self.assertEqual(empty, document(json.loads(text)))
        elif form == "lines":
            for one in text.splitlines():
                self.assertEqual(one, line(json.loads(one)))
            self.assertTrue(text.endswith("\n") or not text)
        elif form == "text":
            self.assertGreater(len(text.splitlines()), 3)

    def registry(self):
        """A worker whose registry has one: that is another program's."""
        return self.answering({"revision": 1, "peers": [{"worker": "a", "epoch": "1", "addresses": {"http": [self.a.url]}}]})

    def run_command(self, command, arguments):
        """What it prints. An offer is used; what does not end by itself is ended."""
        words = [*command.split(), *self.fill_in(arguments), "--json"]
        if words[0] == "workers":
            with self.registry() as url:
                if "--watch" not in words:
                    return self.ferry(*words, "-u", url)[0].decode()
                watch = self.start(*words, "-u", url)
                first = self.line(watch)
                watch.terminate()
                return first + "\n" + self.finish(watch)[0].decode()
        if words[0] not in ("offer", "accept"):
            return self.ferry(*words, "-u", self.a.url)[0].decode(errors="replace")
        process = self.start(*words, "-u", self.a.url)
        first = self.line(process)
        self.assertEqual(json.loads(first)["size"], SIZE)
        use = ["fetch", json.loads(first)["url"], "-o", os.devnull] if words[0] == "offer" else ["send", self.source, json.loads(first)["url"]]
        self.ferry(*use, "-u", self.b.url)
        return first + "\n" + self.finish(process)[0].decode()

    def test_every_command_is_in_the_table(self):
        commands = re.findall(r"^  (\w+) ", self.ferry("--help")[0].decode().split("Options of every")[0], re.M)
        self.assertEqual(sorted(commands), sorted(COMMANDS))

    def test_each_prints_its_form(self):
        rows = [(command, form, arguments) for command, (form, arguments, *_) in COMMANDS.items()]
        for command, form, arguments in (*rows, *MORE):
            with self.subTest(f"{command} {arguments}"):
                self.has_form(form, self.run_command(command, arguments))

    def test_each_tells_errors_in_lines(self):
        """On standard error, and nothing on standard output."""
        for command, (_, arguments, *wrong) in COMMANDS.items():
            with self.subTest(command):
                words = [command, *self.fill_in(wrong[0] if wrong else arguments), "--json"]
                process = self.start(*words, "-u", ABSENT)
                output, errors = process.communicate()
                self.assertIn(process.returncode, (2, 3) if wrong else (3,), errors)
                self.assertEqual(output, b"")
                told = errors.decode().splitlines()
                self.assertTrue(told)
                for one in told:
                    self.assertEqual(one, line(json.loads(one)))
                    self.assertTrue(json.loads(one)["error"]["message"])

    def test_a_refusal_has_its_code(self):
        for command, code in (("show rgn_0000000000000001", "not-found"), ("cancel op_0000000000000001", "not-found"),
                              ("post /v1/regions {}", "invalid-parameter")):
            _, errors = self.ferry(*command.split(), "-j", "-u", self.a.url, status=1)
            self.assertEqual(json.loads(errors)["error"]["code"], code, errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
