#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ferry on a terminal: progress, top, and no bytes to the screen."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import unittest

from workers import Case, FERRY, LIMIT, environment


class Terminal(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = self.worker("a"), self.worker("b")

    def run_on(self, *arguments, streams=("stdin", "stdout", "stderr"), until=None, end=None, then=None, columns=0, term="xterm"):
        """Runs ferry with streams on a terminal. Returns its status and what the terminal showed."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        given = {name: slave for name in streams}
        process = subprocess.Popen([FERRY, *map(str, arguments)], start_new_session=True,
                                   env=environment(self.directory, TERM=term),
                                   **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **given})
        self.started.append(process)
        os.close(slave)
        shown = b""
        while True:
            ready, _, _ = select.select([master], [], [], LIMIT)
            self.assertTrue(ready, shown)
            try:
                data = os.read(master, 65536)
            except OSError:  # the process has closed its end
                break
            shown += data
            if until and re.search(until, shown):
                end(process)
                (until, end), then = then or (None, None), None
            if not data:
                break
        process.wait(LIMIT)
        os.close(master)
        return process.returncode, shown.decode()

    def test_progress_shows_bytes_rate_and_remaining_time(self):
        offer = self.start("offer", self.file("source", 64 << 20), "-u", self.a.url)
        url = self.line(offer)
        status, shown = self.run_on("fetch", url, "-o", self.directory / "target", "-u", self.b.url)
        self.assertEqual(status, 0, shown)
        self.assertRegex(shown, r"\r\x1b\[K\[.*\] +100% 64\.0 MiB / 64\.0 MiB +[0-9.]+ [MG]iB/s +(eta|connect) ")
        self.finish(offer)

    def test_progress_fits_a_narrow_terminal(self):
        """A line that wraps would stay, one for each redraw."""
        offer = self.start("offer", self.file("source", 64 << 20), "-u", self.a.url)
        status, shown = self.run_on("fetch", self.line(offer), "-o", self.directory / "target", "-u", self.b.url,
                                    columns=40)
        self.assertEqual(status, 0, shown)
        self.assertRegex(shown, r"\r\x1b\[K100% 64\.0 MiB / 64\.0 MiB")
        self.fits(shown, 40)
        self.finish(offer)

    def fits(self, shown, columns):
        for line in re.split(r"\r\x1b\[K|\r?\n", shown):
            self.assertLess(len(line), columns)

    def test_progress_of_many_workers_fits(self):
        """A terminal without a width counts as one of 80 columns."""
        for columns in (40, 0):
            status, shown = self.run_on("spread", self.file("source", 1 << 20), self.b.url, self.a.url, self.b.url,
                                        "-u", self.a.url, streams=("stdin", "stderr"), columns=columns)
            self.assertEqual(status, 0, shown)
            self.assertRegex(shown, rf"\r\x1b\[K[0-9.]+ [KMG]?i?B/s  {self.b.url} ")
            self.fits(shown, columns or 80)

    def test_bash_completes_on_a_terminal(self):
        """What bash does with '@', ':' and '=' in a word shows on a terminal alone."""
        (self.directory / "ferry").mkdir()
        (self.directory / "ferry" / "workers").write_text("prefill http://127.0.0.1:1\n")
        for name in ("my file.txt", "a:bc", "x=bc", "u@bc"):
            (self.directory / name).touch()
        master, slave = pty.openpty()
        shell = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], start_new_session=True, stdin=slave,
                                 cwd=self.directory, stdout=slave, stderr=slave, env=environment(self.directory, TERM="dumb", PS1="$ "))
        self.started.append(shell)
        os.close(slave)
        self.addCleanup(os.close, master)
        shown = b""

        def says(text, expected):
            nonlocal shown
            os.write(master, text.encode())
            while expected.encode() not in shown:
                ready, _, _ = select.select([master], [], [], LIMIT)
                self.assertTrue(ready, shown)
                shown += os.read(master, 65536)
            shown = b""

        says(f"PATH={pathlib.Path(FERRY).parent}:$PATH; . <(ferry completion bash); echo rea''dy\n", "ready\r\n")
        for typed, completed in (
                ("@pre", "@prefill "), ("--url http://127.0.0.1:1 reg", "--url http://127.0.0.1:1 regions "),
                ("@prefill fet", "@prefill fetch "), ("ls --status=COM", "ls --status=COMPLETE "),
                ("-u @p", "-u @prefill "), (r"offer my\ f", "offer my file.txt "), ('offer "my f', "offer my file.txt "),
                ("offer 'my f", "offer my file.txt "), (r"fetch x -o my\ f", "fetch x -o my file.txt "),
                (r"fetch x --output=my\ f", "fetch x --output=my file.txt "), ("post /x @my", "post /x @my"),
                ("offer a:b", "offer a:bc "), ("offer x=b", "offer x=bc "), ("offer u@b", "offer u@bc "),
                ("--url=@p", "--url=@prefill ")):
            says(f"ferry {typed}\t\x01echo [\x05]\n", f"[ferry {completed}]\r\n")

    def test_a_dumb_terminal_is_not_drawn_on(self):
        """That of an editor, or a log: it would show every escape sequence."""
        offer = self.start("offer", self.file("source", 1 << 20), "-u", self.a.url)
        status, shown = self.run_on("fetch", self.line(offer), "-o", self.directory / "target", "-u", self.b.url, term="dumb")
        self.assertEqual((status, shown), (0, ""))
        self.finish(offer)
        status, shown = self.run_on("top", "-u", self.a.url, term="dumb")
        self.assertEqual((status, shown.count("OPERATION"), shown.count("\x1b")), (0, 1, 0))

    def test_quiet_is_quiet(self):
        offer = self.start("offer", self.file("source", 1 << 20), "-u", self.a.url)
        status, shown = self.run_on("fetch", self.line(offer), "-o", self.directory / "target", "-q", "-u", self.b.url)
        self.assertEqual((status, shown), (0, ""))
        self.finish(offer)

    def test_no_bytes_to_the_screen(self):
        offer = self.start("offer", self.file("source", 1000), "-u", self.a.url)
        url = self.line(offer)
        status, shown = self.run_on("fetch", url, "-u", self.b.url)
        self.assertEqual(status, 2)
        self.assertIn("ferry: no bytes to a terminal", shown)
        # Not claimed: somebody else can have it.
        self.ferry("fetch", url, "-o", self.directory / "target", "-u", self.b.url)
        self.finish(offer)
        self.nothing_left(self.a, self.b)

    def metric(self, name):
        metrics = self.ferry("get", "/metrics", "-u", self.a.url)[0].decode()
        return sum(int(n) for n in re.findall(rf"^{name}(?:\{{.*\}})? (\d+)$", metrics, re.M))

    def test_top_draws_what_happens_and_asks_for_nothing_between(self):
        asked = []

        def happens(process):
            while not self.metric("ferry_http_waiters"):
                pass
            asked.extend(self.metric("ferry_http_requests_total") for _ in range(9))
            region = self.region(self.a, 4096)
            offer = json.loads(self.ferry("post", "/v1/operations", json.dumps(
                {"kind": "readable", "label": "mine", "descriptors": [{"region": region}]}), "-u", self.a.url)[0])
            self.ferry("cancel", offer["id"], "-u", self.a.url)

        def ends(process):
            process.send_signal(signal.SIGINT)

        status, shown = self.run_on("top", "--interval", "1ms", "-u", self.a.url, until=rb"(?s)\x1b\[H\x1b\[J.*LABEL",
                                    end=happens, then=(rb"CANCELLED.*mine", ends))
        self.assertEqual(status, 0)
        # No requests but those for the metrics.
        self.assertEqual(asked, list(range(asked[0], asked[0] + 9)))

    def test_an_offer_says_how_to_fetch_it(self):
        status, shown = self.run_on("offer", self.file("source", 1000), "-u", self.a.url, until=rb"ferry fetch http",
                                    end=lambda process: process.send_signal(signal.SIGINT))
        self.assertEqual(status, -signal.SIGINT)
        self.assertIn("ferry: Interrupt", shown)
        self.nothing_left(self.a)


if __name__ == "__main__":
    unittest.main(verbosity=2)
