#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ferry on a terminal: progress, top, and no bytes to the screen."""
import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import threading
import unicodedata
import unittest

from workers import Case, FERRY, LIMIT, environment, http_answer

# What is started inherits the signals that are ignored here: nohup ignores some, as a shell does for jobs in the background.
for inherited in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
    signal.signal(inherited, signal.SIG_DFL)


class Terminal(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = self.worker("a"), self.worker("b")

    def run_on(self, *arguments, streams=("stdin", "stdout", "stderr"), until=None, end=None, then=None, columns=0,
               term="xterm", command=(FERRY,), **more):
        """Runs ferry with streams on a terminal. Returns its status and what the terminal showed."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        self.terminal, before = master, termios.tcgetattr(slave)
        given = {name: slave for name in streams}
        process = subprocess.Popen([*command, *map(str, arguments)], start_new_session=True,
                                   env=environment(self.directory, TERM=term),
                                   **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **given, **more})
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
        self.assertEqual(termios.tcgetattr(master), before)
        os.close(master)
        return process.returncode, shown.decode()

    def fits(self, shown, columns):
        for line in re.split(r"\r\x1b\[K|\r?\n", shown):
            self.assertLess(len(line), columns)

    def fetch(self, size, *flags, **more):
        """What the terminal shows of a file that is fetched."""
        offer = self.start("offer", self.file("source", size), "-u", self.a.url)
        status, shown = self.run_on("fetch", self.line(offer), "-o", self.directory / "target", "-u", self.b.url, *flags, **more)
        self.assertEqual(status, 0, shown)
        self.finish(offer)
        return shown

    def take(self, _):
        """Fetches what is offered."""
        operation = self.a.get("/v1/operations")["operations"][0]["id"]
        self.ferry("fetch", f"{self.a.url}/v1/operations/{operation}", "-o", "/dev/null", "-u", self.b.url)

    def test_a_transfer_shows_time_rate_and_bytes(self):
        """As many as there is room for: a line that wraps would stay, one for each redraw."""
        full = r"transferring  100%  in [0-9.]+ m?s  [0-9.]+ [MG]iB/s  4\.0 MiB of 4\.0 MiB  "
        for columns, line in ((0, full), (80, full), (40, r"transferring  100%  in [0-9.]+ m?s"), (20, "transferring  100%")):
            shown = self.fetch(4 << 20, columns=columns)
            self.assertRegex(shown, rf"\r\x1b\[K{line}")
            self.assertNotRegex(shown, r"\d *…")  # no figure is cut
            self.fits(shown, columns or 80)

    def test_a_transfer_that_is_over_at_once_is_shown(self):
        """Also if it was so when the worker answered the request that began it, as most of so few bytes are."""
        for _ in range(20):
            self.assertRegex(self.fetch(1000), r"\r\x1b\[Ktransferring  100%  in [0-9.]+ m?s")

    def test_an_offer_tells_that_it_reads_waits_and_transfers(self):
        """Each phase on a line of its own. What comes through the pipe comes when the first line is there."""
        reader, writer = os.pipe()

        def give(_):
            os.write(writer, bytes(1000))
            os.close(writer)

        status, shown = self.run_on("offer", "-", "-u", self.a.url, streams=("stderr",), stdin=reader, columns=80,
                                    until=rb"reading standard input", end=give, then=(rb"waiting for the peer  9:5\d left", self.take))
        os.close(reader)
        self.assertEqual(status, 0, shown)
        lines = [line.split("\x1b[K")[-1] for line in shown.split("\r\n")]
        self.assertRegex(lines[0], r"\Areading standard input  in [0-9.]+ m?s  [0-9.]+ K?i?B/s  1000 B\Z")
        self.assertRegex(lines[-3], r"\Awaiting for the peer  9:5\d left\Z")
        self.assertRegex(lines[-2], r"\Atransferring  100%  in .*  1000 B of 1000 B  ")

    def test_an_offer_of_several_uses_tells_how_many_it_has_served(self):
        """On one line, whose bytes are those of the first: of later ones the offer does not tell."""
        def interrupt(process):
            process.send_signal(signal.SIGINT)

        for uses, after, end, columns in (("2", "1 of 2", self.take, 80), ("2", "1 of 2", self.take, 40), ("unlimited", "1", interrupt, 80)):
            status, shown = self.run_on("offer", self.file("source", 1000), "--uses", uses, "-u", self.a.url, streams=("stderr",), columns=columns,
                                        until=rb"waiting for the peer  0 .*served" + (rb"  9:5\d left" if columns == 80 else b""), end=self.take,
                                        then=(rb"waiting for the peer  " + after.encode() + b" served", end))
            served = [line for line in (line.split("\x1b[K")[-1] for line in shown.split("\r\n")) if "served" in line]
            self.assertEqual((status, len(served)), (0 if uses == "2" else -signal.SIGINT, 1), shown)
            if uses == "2":
                self.assertRegex(served[0], r"\Atransferring  2 of 2 served" + (r"  in [0-9.:]+( m?s)?\Z" if columns == 80 else r"\Z"))
            self.fits(shown, columns)

    def test_an_allocation_shows_how_far_it_has_come(self):
        region = {"id": "rgn_" + "1" * 16, "size": 1 << 20, "device": "cpu", "state": "preparing", "in_use": 0, "bytes_prepared": 1 << 19}
        with self.answering(lambda method, _: http_answer(b"", 204) if method == "DELETE" else region) as url:
            _, shown = self.run_on("offer", self.file("source", 1 << 20), "-u", url, streams=("stderr",), columns=80,
                                   until=rb"allocating   50%  \d:\d\d left  .*/s  512.0 KiB of 1.0 MiB  \[#+\.+\]",
                                   end=lambda process: process.send_signal(signal.SIGINT))
        self.assertRegex(shown, r"\]\r\nferry: Interrupt: stopped")

    def test_a_file_is_read_and_written_by_every_command_that_moves_bytes(self):
        """Pipes among them: the other end opens, and takes or gives nothing before the line is there."""
        region, pipe = self.region(self.a, 1 << 20), self.directory / "a long name of a pipe for narrow terminals"
        os.mkfifo(pipe)
        put, get = ("put", f"/v1/regions/{region}/content", pipe), ("get", f"/v1/regions/{region}/content", "-o", pipe)
        for command, flags, until in (
                (put, os.O_WRONLY, rb"reading a long name of a pip"), (get, os.O_RDONLY, rb"writing a long name of a pip.* +\d+%"),
                (("copy", pipe, region), os.O_WRONLY, rb"reading a long name of a pip"),
                (("copy", region, pipe), os.O_RDONLY, rb"writing a long name of a pip.* +\d+%"),
                (("spread", pipe, self.b.url), os.O_WRONLY, rb"reading a long name of a pip")):
            ends = []
            opens = threading.Thread(target=lambda: ends.append(os.open(pipe, flags)))
            opens.start()

            def move(_):
                opens.join()
                if flags == os.O_WRONLY:
                    os.write(ends[0], bytes(1000))
                while flags == os.O_RDONLY and os.read(ends[0], 65536):
                    pass
                os.close(ends[0])

            status, shown = self.run_on(*command, "-u", self.a.url, streams=("stderr",), columns=60, until=until, end=move)
            self.assertEqual(status, 0, shown)
            self.fits(shown, 60)

    def test_no_progress_in_the_background(self):
        """It would write into what the user types. The job in the foreground begins later, and is seen."""
        region, ends = self.region(self.a, 1000), []
        for name in ("behind", "before"):
            os.mkfifo(self.directory / name)
            ends.append(os.open(self.directory / name, os.O_RDWR))
        put = f"{FERRY} put /v1/regions/{region}/content {self.directory}/%s -u {self.a.url}"

        def give(_):
            for end in ends:
                os.write(end, bytes(1000))
                self.eventually(lambda end=end: not select.select([end], [], [], 0)[0])  # it has been read
                os.close(end)

        status, shown = self.run_on("-mc", put % "behind" + " & " + put % "before" + "; wait $!", command=("setsid", "-cw", "bash"),
                                    until=rb"reading before", end=give, columns=80)
        self.assertEqual(status, 0, shown)
        self.assertNotIn("reading behind", shown)

    def test_progress_of_many_workers_fits(self):
        """A terminal without a width counts as one of 80 columns."""
        slow = self.tunnel(self.b, lambda data: b'"kind":"read"' in data and threading.Event().wait(0.3))  # longer than a phase without a line
        for columns in (40, 0):
            status, shown = self.run_on("spread", self.file("source", 1 << 20), slow, self.a.url, "-u", self.a.url,
                                        streams=("stdin", "stderr"), columns=columns)
            self.assertEqual(status, 0, shown)
            self.assertRegex(shown, r"\r\x1b\[Ktransferring  100%  in [0-9.]+ m?s" + ("" if columns else ".*  http://127"))
            self.fits(shown, columns or 80)

    def test_a_spread_tells_who_still_allocates(self):
        """Before anything moves, and beside what moves."""
        region = {"id": "rgn_" + "1" * 16, "size": 1 << 20, "device": "cpu", "state": "preparing", "in_use": 0, "bytes_prepared": 1 << 19}
        file = self.file("source", 1 << 20)
        with self.answering(lambda method, _: http_answer(b"", 204) if method == "DELETE" else region) as url:
            for first, until in (((), r"allocating   50%.*  512\.0 KiB of 1\.0 MiB  " + url + " 50%"),
                                 ((self.b.url,), f"transferring    0%.*  {self.b.url} 100%, {url} allocating 50%")):
                status, shown = self.run_on("spread", file, *first, url, "-u", self.a.url, streams=("stderr",), columns=150,
                                            until=until.encode(), end=lambda process: process.send_signal(signal.SIGINT))
                self.assertEqual(status, -signal.SIGINT, shown)
                self.assertEqual("transferring" in shown, bool(first), shown)
        self.nothing_left(self.a, self.b)

    def shells_environment(self):
        """With ferry in PATH, which knows a worker @prefill."""
        self.names("prefill http://127.0.0.1:1\n")
        path = f"{pathlib.Path(FERRY).parent}:{os.environ['PATH']}"
        return environment(self.directory, TERM="dumb", PS1="$ ", HOME=str(self.directory), PATH=path)

    def shell(self, *command):
        """A shell on a terminal. Returns a function that types a text and waits for what is to follow."""
        master, slave = pty.openpty()
        shell = subprocess.Popen(command, start_new_session=True, stdin=slave, cwd=self.directory, stdout=slave, stderr=slave,
                                 env=self.shells_environment())
        self.started.append(shell)
        os.close(slave)
        self.addCleanup(os.close, master)

        def says(text, expected):
            shown = b""
            os.write(master, text.encode())
            while expected.encode() not in shown:
                ready, _, _ = select.select([master], [], [], LIMIT)
                self.assertTrue(ready, (text, shown))
                shown += os.read(master, 65536)
        return says

    def test_bash_completes_on_a_terminal(self):
        """What bash does with '@', ':' and '=' in a word shows on a terminal alone."""
        for name in ("my file.txt", "a:bc", "x=bc", "u@bc"):
            (self.directory / name).touch()
        says = self.shell("bash", "--norc", "--noprofile", "-i")
        says(". <(ferry completion bash); echo rea''dy\n", "ready\r\n")
        for typed, completed in (
                ("@pre", "@prefill "), ("--url http://127.0.0.1:1 reg", "--url http://127.0.0.1:1 regions "),
                ("@prefill fet", "@prefill fetch "), ("ls --status=COM", "ls --status=COMPLETE "),
                ("-u @p", "-u @prefill "), (r"offer my\ f", "offer my file.txt "), ('offer "my f', "offer my file.txt "),
                ("offer 'my f", "offer my file.txt "), (r"fetch x -o my\ f", "fetch x -o my file.txt "),
                (r"fetch x --output=my\ f", "fetch x --output=my file.txt "), ("post /x @my", "post /x @my"),
                ("offer a:b", "offer a:bc "), ("offer x=b", "offer x=bc "), ("offer u@b", "offer u@bc "),
                ("--url=@p", "--url=@prefill ")):
            says(f"ferry {typed}\t\x01echo [\x05]\n", f"[ferry {completed}]\r\n")

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_completes_on_a_terminal(self):
        """The blank behind a completed word goes when the line goes on."""
        (self.directory / "my file.txt").touch()
        region = self.region(self.a, 4096)
        says = self.shell("zsh", "-f", "-i")
        says("bindkey -e; autoload -U compinit; compinit -u -D; . <(ferry completion zsh); echo rea''dy\r",
             "ready\r\n")
        for typed, completed in (
                ("@pre", "@prefill"), ("-u http://127.0.0.1:1 reg", "-u http://127.0.0.1:1 regions"), ("@prefill fet", "@prefill fetch"),
                ("ls --status=COM", "ls --status=COMPLETE"), ("ls --kin", "ls --kind"), ("-u @p", "-u @prefill"),
                ("offer my\\ f", "offer my file.txt"), ("fetch x -o my", "fetch x -o my file.txt"), ("fetch --rem", "fetch --remote"),
                ("help comp", "help completion"), ("ls my", "ls my"), ("connect @pre", "connect @prefill"),
                (f"-u {self.a.url} show rgn", f"-u {self.a.url} show {region}")):
            says(f"ferry {typed}\t\x01echo :\x05:\r", f"\n:ferry {completed}:\r\n")

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_completes(self):
        (self.directory / "my file.txt").touch()
        region, shells = self.region(self.a, 4096), self.shells_environment()
        for typed, completed in (
                ("@pre", "@prefill"), ("-u http://127.0.0.1:1 reg", "regions"), ("@prefill fet", "fetch"), ("ls --status COM", "COMPLETE"),
                ("ls --kin", "--kind"), ("fetch --kin", ""), ("-u @p", "@prefill"), ("offer my", "my file.txt"), ("ls my", ""),
                ("fetch x -o my", "my file.txt"), ("help comp", "completion"), ("connect @pre", "@prefill"), ("completion zs", "zsh"),
                (f"-u {self.a.url} show rgn", region)):
            done = subprocess.run(["fish", "-c", "ferry completion fish | source; complete -C $argv[1]", f"ferry {typed}"], check=True,
                                  capture_output=True, text=True, timeout=LIMIT, cwd=self.directory, env=shells)
            self.assertEqual((done.stdout.split("\t")[0].strip(), done.stderr), (completed, ""), typed)

    def test_nothing_is_drawn_quietly_or_on_a_dumb_terminal(self):
        """That of an editor, or a log: it would show every escape sequence."""
        self.assertEqual(self.fetch(1 << 20, "-q"), "")
        self.assertEqual(self.fetch(1 << 20, term="dumb"), "")
        status, shown = self.run_on("top", "-u", self.a.url, term="dumb")
        self.assertEqual((status, shown.count("OPERATION"), shown.count("\x1b")), (0, 1, 0))

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

    def test_what_a_worker_answers_does_not_control_the_terminal(self):
        """Nor does it where a character is split between two pieces; and elsewhere than on a terminal it is what came."""
        body = b"a\x1b]0;title\x07b\r\tc\xc2\x9bd\xe2\x80\xaee\x9bf\xe6\x97\xa5\0\n" * 999
        pieces = [body[i:i + 7] for i in range(0, len(body), 7)]
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        answer = head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))
        file = self.file("file", 10)
        with self.answering(answer) as url:
            for command in (("get", "/x"), ("post", "/x", "{}"), ("put", "/x", file), ("delete", "/x"), ("get", "/x", "-j")):
                status, shown = self.run_on(*command, "-u", url, "-q", columns=80)
                self.assertEqual((status, re.findall(r"[^\n\t -~\u00a0-\u200d\u2030-\uffff]", shown.replace("\r\n", "\n"))), (0, []), command)
                self.assertTrue(shown.startswith("a\\u001b]0;title\\u0007b\\u000d\tc\\u009bd\\u202ee\ufffdf\u65e5"), shown[:99])
                if "-j" not in command:
                    self.assertEqual(shown.count("\u65e5\\u0000\r\n"), 999)
                    self.assertEqual(self.ferry(*command, "-u", url)[0], body)

    def metric(self, name):
        metrics = self.ferry("get", "/metrics", "-u", self.a.url)[0].decode()
        return sum(int(n) for n in re.findall(rf"^{name}(?:\{{.*\}})? (\d+)$", metrics, re.M))

    def test_top_draws_what_happens_and_asks_for_nothing_between(self):
        """Also where an offer of several uses stands, IN_PROGRESS, between two of them."""
        asked = []
        offer = self.a.offer(self.region(self.a, 4096), uses=2)
        self.ferry("fetch", f"{self.a.url}/v1/operations/{offer['id']}", "-o", "/dev/null", "-u", self.b.url)
        self.eventually(lambda: "expires_at" in self.a.get("/v1/operations/" + offer["id"]))

        def asks_for_nothing():
            asked[:] = [self.metric("ferry_http_requests_total") for _ in range(9)]
            return asked == list(range(asked[0], asked[0] + 9))  # no requests but those for the metrics

        def happens(_):
            self.eventually(lambda: self.metric("ferry_http_waiters"))
            self.eventually(asks_for_nothing)
            self.ferry("cancel", self.a.offer(self.region(self.a, 4096), label="mine")["id"], "-u", self.a.url)

        def ends(process):
            process.send_signal(signal.SIGINT)

        status, shown = self.run_on("top", "--interval", "1ms", "-u", self.a.url, until=rb"(?s)\x1b\[H\x1b\[J.*LABEL",
                                    end=happens, then=(rb"CANCELLED.*mine", ends), columns=200)
        self.assertEqual(status, 0, shown)
        self.assertEqual(len(asked), 9)

    def width(self, text):
        return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)

    def test_top_fits_every_terminal(self):
        """What is missing is missing on the right, and no number is cut."""
        region = self.region(self.a, 4096)
        for label in ("\u05e9\u05dc\u05d5\u05dd", "\u65e5\u672c\u8a9e" * 7, "a\u202eb", "x" * 64):
            self.a.offer(region, label=label)
        for columns, titles in ((20, "OPERATION"), (40, "OPERATION DONE RATE/s"), (80, "OPERATION DONE RATE/s SIZE STATUS TRANSPORT KIND"),
                                (200, "OPERATION DONE RATE/s SIZE STATUS TRANSPORT KIND PEER LABEL")):
            status, shown = self.run_on("top", "--count", 1, "-u", self.a.url, columns=columns)
            self.assertEqual(status, 0, shown)
            self.assertTrue(shown.startswith("\x1b[?1049h\x1b[?25l\x1b[H\x1b[J0 B/s, 4 operations"[:23 + columns]), shown)
            self.assertTrue(shown.endswith("\x1b[?25h\x1b[?1049l"), shown)
            lines = re.sub(r"\x1b\[\??[0-9]*[A-Za-z]", "", shown).split("\r\n")
            self.assertLessEqual(max(map(self.width, lines)), columns)
            self.assertEqual(lines[2].split(), titles.split())
        self.assertIn("  \u05e9\u05dc\u05d5\u05dd", shown)
        self.assertIn("  a?b", shown)

    def keys(self, *sent):
        """For run_on: types it, and notes the settings of the terminal before."""
        def type_them(_):
            self.settings = termios.tcgetattr(self.terminal)
            os.write(self.terminal, b"".join(sent))
        return type_them

    def test_top_ends_by_a_key_and_by_signals(self):
        """At once, though it waits for events; and what was typed meanwhile goes to nobody."""
        def signalled(number):
            return lambda process: process.send_signal(number)

        for end in (self.keys(b"xyz\r", b"q"), *map(signalled, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))):
            status, shown = self.run_on("top", "-u", self.a.url, until=rb"(?s)\x1b\[H\x1b\[J.*OPERATION", end=end, columns=80)
            self.assertEqual(status, 0, shown)
            self.assertNotIn("xyz", shown)
            self.assertTrue(shown.endswith("\x1b[?25h\x1b[?1049l"), shown)
        self.assertFalse(self.settings[3] & termios.ECHO)

    def test_top_follows_the_size_of_the_terminal(self):
        """Though nothing happens at the worker."""
        def shrink(process):
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 30, 0, 0))
            process.send_signal(signal.SIGWINCH)  # the kernel sends it to those whose terminal controls them

        status, shown = self.run_on("top", "-u", self.a.url, until=rb"(?s)\x1b\[H\x1b\[J.*LABEL", end=shrink, columns=200,
                                    then=(rb"(?s)LABEL.*\x1b\[H\x1b\[J.*OPERATION", self.keys(b"q")))
        self.assertEqual(status, 0, shown)
        self.assertEqual((shown.count("OPERATION"), shown.count("LABEL")), (2, 1))

    def test_top_tells_an_error_on_the_usual_screen(self):
        self.a.expect("drain")
        status, shown = self.run_on("top", "-u", self.a.url, until=rb"(?s)\x1b\[H\x1b\[J.*OPERATION", columns=80,
                                    end=lambda _: self.a.process.kill())
        self.assertEqual(status, 3, shown)
        self.assertRegex(shown, r"\x1b\[\?25h\x1b\[\?1049lferry: .*\r\n\Z")

    def test_top_that_is_stopped_gives_the_terminal_back(self):
        """And takes it again when it goes on."""
        script = f"{FERRY} top -u {self.a.url}; echo stopped; fg >/dev/null"
        status, shown = self.run_on("-mc", script, command=("setsid", "-cw", "bash"), columns=80,
                                    until=rb"(?s)\x1b\[H\x1b\[J.*OPERATION", end=self.keys(b"\x1a"),
                                    then=(rb"stopped\r\n\x1b\[\?1049h\x1b\[\?25l\x1b\[H\x1b\[J(?s:.*)OPERATION", self.keys(b"q")))
        self.assertEqual(status, 0, shown)
        # Not every bash tells of the job that has stopped, if it is not interactive.
        self.assertRegex(shown, r"\x1b\[\?25h\x1b\[\?1049l(\r\n\[1\]\+ +Stopped .*\r\n)?stopped\r\n")
        self.assertTrue(shown.endswith("\x1b[?25h\x1b[?1049l"), shown)

    def test_an_offer_says_how_to_fetch_it(self):
        status, shown = self.run_on("offer", self.file("source", 1000), "-u", self.a.url, until=rb"ferry fetch http",
                                    end=lambda process: process.send_signal(signal.SIGINT))
        self.assertEqual(status, -signal.SIGINT)
        self.assertIn("ferry: Interrupt", shown)
        self.nothing_left(self.a)


if __name__ == "__main__":
    unittest.main(verbosity=2)
