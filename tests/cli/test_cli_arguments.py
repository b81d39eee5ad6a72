#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a command line is told before anything is done."""
import os
import unittest

from workers import Case, environment


class Arguments(Case):
    def setUp(self):
        super().setUp()
        self.source = self.file("source", 1000)
        self.config = self.directory / "ferry" / "workers"
        self.config.parent.mkdir()

    def test_values_are_checked_first(self):
        """Before a file is opened, or a worker asked."""
        no = ("-u", "http://127.0.0.1:1")
        for option, value, why in (("timeout", "soon", "is not a time such as 500ms"), ("ttl", "-1s", "is not a time"),
                                   ("uses", "0", "is not a number from 1, or unlimited"), ("uses", "1x", "is not a number from 1"),
                                   ("name", os.fsdecode(b"\xff"), "is not UTF-8"), ("label", os.fsdecode(b"a\xc3"), "is not UTF-8")):
            self.complains(why, "offer", "/nonexistent", f"--{option}", value, *no, status=2)
        self.complains('--size: "5X" is not a size such as 4096', "accept", "-o", "/nonexistent/x", "--size", "5X", *no, status=2)
        self.complains('--size: "0" is not a size', "bench", "http://127.0.0.1:1", "--size", "0", *no, status=2)
        self.complains('--interval: "x" is not a time', "top", "--interval", "x", *no, status=2)
        self.complains('--count: "-1" is not a number', "top", "--count", "-1", *no, status=2)
        self.complains('--timeout: "x" is not a time', "wait", "op_1", "--timeout", "x", *no, status=2)
        self.complains("--json takes no value", "ls", "--json=yes", *no, status=2)
        for option in ("--ca-file", "--cert", "--key"):
            self.complains(f"ferry: /nonexistent{option}: No such file", "ls", option, f"/nonexistent{option}", *no, status=2)
        for value in ("0", "9999h"):
            self.complains(f'--answer-timeout: "{value}" is not a time such as 500ms, 30s, 2m or 1h, 1 to 2147483647 ms',
                           "ls", "--answer-timeout", value, *no, status=2)

    def test_a_time_has_a_unit(self):
        self.complains('--timeout: "30" is not a time such as 500ms, 30s', "wait", "op_1", "--timeout", "30", status=2)

    def test_an_option_is_no_value_of_another(self):
        """Which was forgotten."""
        self.complains("--label needs a value: UTF-8", "ls", "--label", "--done", status=2)
        self.complains("--output needs a value: FILE", "get", "/", "-o", status=2)
        self.complains("no option -x (see ferry --help)", "ls", "-jx", status=2)

    def test_options_and_arguments_in_any_order(self):
        """Also where POSIX says otherwise."""
        a = self.worker("a")
        for arguments in (("-ju", a.url, "get", "-q", "/livez"), ("get", "/livez", f"-qu{a.url}"), ("--url", a.url, "get", "--", "/livez")):
            process = self.start(*arguments, env={**environment(self.directory), "POSIXLY_CORRECT": "1"})
            self.finish(process)

    def test_the_environment_is_checked_as_well(self):
        process = self.start("ls", "-u", "http://127.0.0.1:1", env={**environment(self.directory), "FERRY_ANSWER_TIMEOUT": "x"})
        self.assertEqual(self.finish(process, status=2)[1], 'ferry: FERRY_ANSWER_TIMEOUT: "x" is not a time such as 500ms, 30s, 2m or 1h, 1 to 2147483647 ms\n')

    def test_no_error_repeats_the_password_of_a_url(self):
        """Neither ours nor what the worker says of it."""
        a = self.worker("a")
        url = "http://user:secret@host"
        for status, *arguments in ((2, "ls", "-u", url), (2, "fetch", url), (2, "fetch", f"{url}/v1/operations/op_1/metadata"),
                                   (2, "copy", url, f"{url}/x"), (2, "offer", url), (2, "spread", "f", url), (2, url),
                                   (1, "get", url)):
            _, errors = self.ferry(*arguments, *(() if "-u" in arguments else ("-u", a.url)), status=status)
            self.assertIn("http://*@host", errors)
            self.assertNotIn("secret", errors)
        self.assertEqual(self.ferry("ls", f"--ulr={url}", status=2)[1], "ferry: no option --ulr (see ferry --help)\n")

    def test_a_worker_after_the_command(self):
        self.complains("the worker stands before the command: ferry @a ls", "ls", "@a", status=2)

    def test_a_file_of_workers_with_the_line_breaks_of_windows(self):
        a = self.worker("a")
        self.config.write_bytes(f"# workers\r\na\t{a.url}\r\n".encode())
        self.ferry("@a", "ls")
        self.complains("no worker b in", "@b", "ls", status=2)

    def test_a_token_that_comes_in_pieces(self):
        """From a pipe, as of a command that decrypts it."""
        token = self.directory / "token"
        token.write_text("a-token-of-some-length\n")
        token.chmod(0o600)
        a = self.worker("a", "--token-file", str(token))
        reader, writer = os.pipe()
        process = self.start("regions", "-u", a.url, "--token-file", f"/dev/fd/{reader}", pass_fds=(reader,))
        os.close(reader)
        os.write(writer, b"a-token-of-")
        self.eventually(lambda: process.poll() is not None or self.waits_for_signals(process))
        os.write(writer, b"some-length\n")
        os.close(writer)
        self.finish(process)


if __name__ == "__main__":
    unittest.main(verbosity=2)
