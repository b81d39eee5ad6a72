#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a command line is told before anything is done."""
import os
import pathlib
import re
import subprocess
import unittest

from workers import FERRY, Case, environment

CLIENT = pathlib.Path(__file__).parents[2] / "client"
# What a shell that has the script of bash for ferry makes of a line that is typed so far.
COMPLETE = """
complete_last() {
        COMP_LINE=$*; COMP_POINT=${#COMP_LINE}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _ferry ferry "${*: -1}"; echo "${COMPREPLY[*]}"
}
"""


class Arguments(Case):
    def output(self, *arguments):
        output, errors = self.ferry(*arguments)
        self.assertEqual(errors, "")
        return output.decode()

    def test_version_and_help_need_no_worker(self):
        for arguments in (("--version",), ("version", "-u", "http://127.0.0.1:1")):
            self.assertRegex(self.output(*arguments), r"\Aferry \d+\.\d+\.\d+")
        for text in ("wait OPERATION", "--token-file", "FERRY_URL", "Exit status"):
            self.assertIn(text, self.output("--help"))
        self.assertIn("--timeout", self.output("wait", "--help"))
        self.assertIn("Usage: ferry [@WORKER] accept -o FILE --size SIZE [OPTION]...\n", self.output("accept", "--help"))
        usage = self.output("spread", "--help").split("Options:")[0]
        self.assertLessEqual(max(map(len, usage.splitlines())), 80)

    def test_the_manual_is_that_of_the_table(self):
        """Of commands, word for word, and every variable that it names is one."""
        manual, commands = (CLIENT / "cli" / "ferry.1").read_text(), self.output("help", "--mdoc")
        self.assertIn(".It Cm fetch Ar URL\n", commands)
        self.assertIn(commands, manual)
        names = re.findall(r"Ev (FERRY_[A-Z_]+)", manual + (CLIENT / "nats" / "ferry-nats.1").read_text())
        self.assertGreater(len(names), 5)
        process = self.start("version", env={**environment(self.directory), **dict.fromkeys(names, "1s")})
        self.assertEqual(self.finish(process)[1], "")

    def test_a_misspelt_variable_is_warned_of(self):
        process = self.start("version", env={**environment(self.directory), "FERRY_TOKEN": "/nonexistent"})
        output, errors = self.finish(process)
        self.assertEqual(errors, "ferry: the variable FERRY_TOKEN is unknown: did you mean FERRY_TOKEN_FILE?\n")
        self.assertTrue(output.startswith(b"ferry "))

    def test_a_slip_of_the_pen_is_understood(self):
        for arguments, meant in ((["fetc"], "did you mean fetch?"), (["ofer", "x"], "did you mean offer?"),
                                 (["ls", "--jsn"], "did you mean --json?"), (["help", "fetc"], "did you mean fetch?"),
                                 (["ls", "--output", "x"], "ferry ls has no option --output"),
                                 (["zzzzzz"], "see ferry --help"), ([""], "see ferry --help")):
            self.complains(meant, *arguments, status=2)

    def test_wrong_usage_is_told(self):
        for arguments, told in (("", "no command"), ("get", "usage: ferry get PATH"), ("get a b", "usage: ferry get PATH"),
                                ("put /x /nonexistent", "/nonexistent"), ("post /x @/nonexistent", "/nonexistent"),
                                ("--nonsense version", "--nonsense"), ("--url ftp://h get /", "ftp://h"),
                                ("--token-file /nonexistent get /", "/nonexistent"), ("--token-file /dev/null get /", "/dev/null"),
                                ("wait", "usage: ferry wait"), ("wait op_1 --timeout -1s", "-1s"),
                                ("ls --done --running", "--running"), ("completion csh", "csh")):
            self.complains(told, *arguments.split(), status=2)
        self.complains("the path is not valid", "get", "/a b", status=2)
        for command in ("get", "delete", "post"):
            self.complains("http://a/v1/worker is a URL: give its path", command, "http://a/v1/worker", status=2)

    def test_help_fits_a_terminal(self):
        """Of 80 columns: all but the list of commands, and the examples."""
        commands, rest = self.output("help").split("\nOptions of every command")
        texts = [rest] + [self.output("help", line.split()[0]).split("\nExamples:")[0]
                          for line in commands.split("Commands:\n")[1].splitlines()]
        self.assertGreater(len(texts), 25)
        self.assertEqual([line for text in texts for line in text.splitlines() if len(line) > 80], [])

    def test_errors_are_json_wherever_that_stands(self):
        for arguments in ("-j ls --bogus", "ls --bogus --json", "frobnicate -j", "wait -qj"):
            _, errors = self.ferry(*arguments.split(), status=2)
            self.assertRegex(errors, r'\A{"error":{"message":"[^\n]*\n\Z')

    def test_completions_are_scripts_of_their_shells(self):
        self.assertIn("#compdef ferry\n", self.output("completion", "zsh"))
        self.assertIn("command >/dev/null' -a fetch -d 'fetch an offer into a file'", self.output("completion", "fish"))
        typed = (("fe", "fetch"), ("fetch --ver", "--version --verify"), ("ls --status I", "INITIALIZED IN_PROGRESS"),
                 ("ls --status=I", "INITIALIZED IN_PROGRESS"), ("--url http://a ca", "cancel"), ("help ca", "cancel"),
                 ("@", "@prefill @decode"), ("copy @p", "@prefill"))
        self.complete("# no\nprefill http://a # x\n decode http://b", typed)
        self.complete("it's\n`touch${IFS}x`\n$(touch${IFS}x)\n",
                      [("@", r"@it\'s @\`touch\$\{IFS\}x\` @\$\(touch\$\{IFS\}x\)")])
        self.assertFalse((self.directory / "x").exists())

    def complete(self, names, typed):
        self.names(names)
        script = self.output("completion", "bash") + COMPLETE + "".join(f"complete_last ferry {line}\n" for line, _ in typed)
        env = environment(self.directory, PATH=f"{pathlib.Path(FERRY).parent}:{os.environ['PATH']}")
        done = subprocess.run(["bash"], input=script, text=True, capture_output=True, env=env, cwd=self.directory, check=True)
        self.assertEqual(done.stdout.splitlines(), [completed for _, completed in typed])

    def test_values_are_checked_first(self):
        """Before a file is opened, or a worker asked."""
        no = ("-u", "http://127.0.0.1:1")
        for option, value, why in (("timeout", "soon", "is not a time such as 500ms"), ("ttl", "-1s", "is not a time"),
                                   ("ttl", "0", "is not a time such as 500ms, 30s, 2m or 1h, 1 ms or more"),
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
        for arguments in (("-ju", a.url, "get", "-q", "/livez"), ("get", "/livez", f"-qu{a.url}"), (f"--url={a.url}", "get", "--", "/livez")):
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
                                   (2, "get", url), (1, "get", f"/{url}")):
            _, errors = self.ferry(*arguments, *(() if "-u" in arguments else ("-u", a.url)), status=status)
            self.assertIn("http://*@host", errors)
            self.assertNotIn("secret", errors)
        self.assertEqual(self.ferry("ls", f"--ulr={url}", status=2)[1], "ferry: no option --ulr (see ferry --help)\n")

    def test_a_worker_after_the_command(self):
        self.complains("the worker stands before the command: ferry @a ls", "ls", "@a", status=2)

    def test_a_file_of_workers_with_the_line_breaks_of_windows(self):
        a = self.worker("a")
        self.names(f"# workers\r\na\t{a.url}\r\n")
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
