#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever ends a command: one line tells, and nothing is left on either worker or in the directory."""
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
import unittest

from workers import Case, FERRY, LIMIT, environment, http_answer, stand_still

MIB = 1 << 20


class Faults(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = self.worker("a"), self.worker("b")

    def offer(self, size=1000):
        process = self.start("offer", self.file("source", size), "-u", self.a.url)
        return process, self.line(process)

    def files(self):
        return sorted(path.name for path in self.directory.iterdir() if path.name not in ("local", "source")
                      and not path.name.endswith(".log"))

    def test_missing_and_empty_files_and_directories(self):
        self.complains("no?such?[31m: No such file", "offer", self.directory / "no\nsuch\x1b[31m", "-u", self.a.url, status=2)
        for command in (("offer",), ("send",)):
            more = ("http://127.0.0.1:1/v1/operations/op_1/metadata",) if command == ("send",) else ()
            self.complains("No such file", *command, "/nonexistent", *more, "-u", self.a.url, status=2)
            self.complains("is empty", *command, "/dev/null", *more, "-u", self.a.url, status=2)
            self.complains("is a directory", *command, "/tmp", *more, "-u", self.a.url, status=2)
        process, url = self.offer()
        self.complains("No such file", "fetch", url, "-o", "/nonexistent/x", "-u", self.b.url, status=2)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), -signal.SIGTERM)
        self.nothing_left(self.a, self.b)

    def test_no_worker(self):
        source = self.file("source", 10)
        self.complains("is a worker running at http://127.0.0.1:1?", "offer", source, "-u", "http://127.0.0.1:1", status=3)
        self.complains("is a worker running at unix:/nonexistent? Connection refused: nothing listens at the socket", "ls",
                       "-u", "unix:/nonexistent", status=3)
        process, url = self.offer()
        self.complains("is a worker running at", "fetch", url, "-o", self.directory / "x", "-u", "http://127.0.0.1:1",
                       status=3)
        process.terminate()
        process.wait(60)
        self.nothing_left(self.a)
        self.assertEqual(self.files(), [])

    def test_a_url_that_is_not_ours(self):
        for url in ("http://127.0.0.1:1/x", "nonsense", "http://127.0.0.1:1/v1/regions/rgn_1", "op_"):
            self.complains("is not the URL of an offer", "fetch", url, "-o", "/nonexistent/x", "-u", self.b.url, status=2)
        self.complains("has no op_1234567890abcdef", "fetch", self.a.url + "/v1/operations/op_1234567890abcdef/metadata", "-o",
                       self.directory / "x", "-u", self.b.url, status=1)
        self.complains("is a worker running at", "fetch", "http://127.0.0.1:1/v1/operations/op_1/metadata", "-o",
                       self.directory / "x", "-u", self.b.url, status=3)
        self.assertEqual(self.files(), [])

    def test_a_server_that_is_no_worker(self):
        """Nothing counts as done there, be it that it answers with other JSON or leads elsewhere, as to https:."""
        source, elsewhere = self.file("source", 10), http_answer(b"", 302, "Location: https://h/")
        for one in (elsewhere, {"a": 1}):
            with self.answering(one) as url:
                for command in (["ls"], ["show"], ["show", "limits"], ["doctor"], ["top"], ["events"], ["devices"], ["peers"],
                                ["rm", "rgn_1"], ["cancel", "op_1"], ["wait", "op_1"], ["offer", source], ["connect", "http://x:1"],
                                ["accept", "-o", self.directory / "x", "--size", "1"]):
                    self.complains("is this the URL of a ferryd?", *command, "-u", url, status=3)
        with self.answering(elsewhere) as url:
            self.complains("leads to another URL: https://h/", "put", "/v1/regions/rgn_1/content", source, "-u", url, status=3)
        self.assertEqual(self.files(), [])

    def test_the_wrong_pairing(self):
        process, url = self.offer()
        self.complains("use ferry fetch", "send", self.directory / "source", url, "-u", self.b.url, status=2)
        accept = self.start("accept", "-o", self.directory / "x", "--size", 1000, "-u", self.a.url)
        accepted = self.line(accept)
        self.complains("use ferry send", "fetch", accepted, "-o", self.directory / "y", "-u", self.b.url, status=2)
        self.complains("1001 bytes, and 1000 are accepted", "send", self.file("large", 1001), accepted, "-u", self.b.url,
                       status=2)
        os.unlink(self.directory / "large")
        _, errors = self.finish(accept, status=1)  # by itself: nothing that fits will come
        self.assertRegex(errors, r"declined: .* \(has the file that was to come another size than --size\?\)\n\Z")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), -signal.SIGINT)
        self.nothing_left(self.a, self.b)
        self.assertEqual(self.files(), [])

    def test_a_worker_that_wants_a_client_certificate(self):
        tls = pathlib.Path(__file__).parent.parent / "api" / "tls"
        flags = "--tls-cert", tls / "server.pem", "--tls-key", tls / "server-key.pem", "--tls-client-ca", tls / "ca.pem"
        c = self.worker("c", *flags)
        self.complains("--cert", "ls", "-u", c.url, "--ca-file", tls / "ca.pem", status=3)

    def test_a_second_fetch(self):
        process, url = self.offer()
        self.ferry("fetch", url, "-o", self.directory / "x", "-u", self.b.url)
        self.finish(process)
        self.complains("offer it again", "fetch", url, "-o", self.directory / "y", "-u", self.b.url, status=1)
        self.assertEqual(self.files(), ["x"])
        self.nothing_left(self.a, self.b)

    def test_wrong_tokens(self):
        token, wrong = self.directory / "token.log", self.directory / "wrong.log"
        token.write_text("a-token-of-some-length\n")
        wrong.write_text("another-token-of-some-length\n")
        token.chmod(0o600)
        c = self.worker("c", "--token-file", str(token))
        self.complains("--token-file", "ls", "-u", c.url, status=1)
        self.complains("--token-file", "ls", "-u", c.url, "--token-file", wrong, status=1)
        offer = self.start("offer", self.file("source", 10), "-u", c.url, "--token-file", token)
        url = self.line(offer)
        self.complains("--peer-token-file", "fetch", url, "-o", self.directory / "x", "-u", self.b.url, status=1)
        self.ferry("fetch", url, "-o", self.directory / "x", "-u", self.b.url, "--peer-token-file", token)
        self.finish(offer)
        for command in (["bench", c.url], ["copy", f"{c.url}/v1/regions/rgn_1", self.directory / "x"]):
            self.complains(f"{c.url}: 401 unauthenticated: Send the worker's token as Authorization: Bearer (give that "
                           "worker's token with --peer-token-file)", *command, "-u", self.b.url, status=1)
        self.nothing_left(self.b)

    def test_a_full_disk_in_each_phase(self):
        """No room for the name; for the bytes, which are reserved before a peer gives them; or while they are written."""
        disk = self.directory / "disk"
        disk.mkdir()
        mount = ["unshare", "-rm", "bash", "-c", 'mount -t tmpfs -o "$1" none "$2" && cd "$2" || exit 77; shift 2; '
                 '(eval "$1"); status=$?; echo "left:" * >&2; exit $status', "-"]
        offer = self.start("offer", self.file("source", MIB), "--uses", "unlimited", "-u", self.a.url)
        url, region = self.line(offer), self.region(self.b, MIB)
        for room, command, why in (
                ("nr_inodes=1", f"fetch {url} -o x", "x: No space left on device\nleft: *"),
                ("size=64k", f"fetch {url} -o x", "x: No space left on device: 1.0 MiB are needed\nleft: *"),
                ("size=64k", f"fetch {url} >x", "standard output: No space left on device\nleft: x"),
                ("size=64k", "accept --size 1M -o x", "x: No space left on device: 1.0 MiB are needed\nleft: *"),
                ("size=64k", f"get /v1/regions/{region}/content -o x", "x: No space left on device\nleft: *"),
                ("size=64k", f"copy {region} x", "x: No space left on device: 1.0 MiB are needed\nleft: *")):
            done = subprocess.run([*mount, room, disk, f"{FERRY} {command} -u {self.b.url}"], capture_output=True, timeout=LIMIT,
                                  env=environment(self.directory), check=False)
            if done.returncode in (1, 77) and b"ferry:" not in done.stderr:
                self.skipTest("no file system can be mounted here")
            self.assertEqual((done.returncode, done.stderr.decode(), done.stdout), (2, f"ferry: {why}\n", b""), command)
        offer.terminate()
        offer.wait(LIMIT)
        self.ferry("rm", region, "-u", self.b.url)
        self.nothing_left(self.a, self.b)

    def test_no_room_for_so_many_bytes(self):
        """It is not tried: for a while, that would take the room of others."""
        accept = self.start("accept", "-o", self.directory / "x", "--size", "64T", "-u", self.a.url)
        _, errors = self.finish(accept, status=2)
        self.assertRegex(errors, r"\Aferry: .*/x: No space left on device: 64\.0 TiB are needed\n\Z")
        self.assertEqual(self.files(), [])
        self.nothing_left(self.a)

    def test_a_region_that_may_never_fit(self):
        """Nothing that the user could remove makes room for it."""
        small = self.worker("small", "--memory-limit", "4M")
        accept = ("accept", "-o", self.directory / "x", "-u", small.url, "--size")
        _, errors = self.ferry(*accept, "8M", status=1)
        self.assertRegex(errors, r"\Aferry: [^\n]*--memory-limit is [0-9]+\n\Z")
        self.region(small, 3 * MIB)
        self.complains("remove regions with ferry rm", *accept, "3M", status=1)

    def test_dev_full(self):
        process, url = self.offer(MIB)
        self.complains("/dev/full: No space left", "fetch", url, "-o", "/dev/full", "-u", self.b.url, status=2)
        self.complains("/dev/full: No space left", "get", "/metrics", "-o", "/dev/full", "-u", self.b.url, status=2)
        self.finish(process)
        self.nothing_left(self.a, self.b)

    def test_a_home_that_is_not_there(self):
        """Nothing is written there, and what is read there need not be."""
        process = self.start("offer", self.file("source", 10), "--uses", 3, "-u", self.a.url)
        url = self.line(process)
        for home in ("/proc/no/home", "", None):
            env = {name: value for name, value in environment(self.directory).items() if name not in ("XDG_CONFIG_HOME", "HOME")}
            env.update({} if home is None else {"HOME": home})
            for command in (("fetch", url, "-o", "/dev/null"), ("doctor",), ("completion", "operations"), ("ls",)):
                done = subprocess.run([FERRY, *command, "-u", self.b.url], capture_output=True, env=env, timeout=LIMIT, check=False)
                self.assertEqual((done.returncode, done.stderr.replace(b"No operations.\n", b"")), (0, b""), (home, command))
            done = subprocess.run([FERRY, "@b", "ls"], capture_output=True, env=env, timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr.decode(), r"\Aferry: @b: \S*/.config/ferry/workers: No such file or directory; a line there")
        self.finish(process)

    def test_a_time_limit(self):
        process = self.start("offer", self.file("source", 10), "-u", self.a.url, "--timeout", "50ms")
        _, errors = self.finish(process, status=4)
        self.assertEqual(errors, "ferry: not done within 50 ms: stopped\n")
        self.nothing_left(self.a)

    def test_a_time_limit_of_what_waits_for_no_worker(self):
        """But for the other end of a pipe."""
        pipe, offer, region = self.directory / "pipe", self.offer(10), self.region(self.b, 10)
        os.mkfifo(pipe)
        for ms, *command in ((50, "offer", "-"), (50, "offer", pipe), (50, "send", pipe, offer[1]), (50, "fetch", offer[1], "-o", pipe),
                             (50, "accept", "-o", pipe, "--size", "10"), (50, "spread", pipe, self.a.url),
                             (50, "copy", "-", region), (0, "copy", "-", region)):
            waits = self.start(*command, "-u", self.b.url, "--timeout", f"{ms}ms", stdin=-1)
            waits.wait(LIMIT)  # its input stays open
            self.assertEqual(self.finish(waits, status=4)[1], f"ferry: not done within {ms} ms: stopped\n", command)
        self.assertEqual(self.b.left(), [region])
        offer[0].send_signal(signal.SIGINT)
        self.finish(offer[0], status=-signal.SIGINT)

    def test_what_a_killed_command_leaves_bears_its_name(self):
        process, _ = self.offer(MIB)
        process.kill()
        process.wait()
        self.assertEqual([region["name"] for region in self.a.get("/v1/regions")["regions"]], ["ferry offer"])
        self.ferry("rm", *reversed(self.a.left()), "-u", self.a.url)
        self.nothing_left(self.a)

    def test_the_region_of_a_killed_command_goes(self):
        """That of an offer, when the offer has expired; that of a fetch, when its bytes have come."""
        process, fetch = self.fetch_from_a_stopped_worker("--idle", "2s")
        fetch.kill()
        offer = self.start("offer", self.file("source", MIB), "-u", self.b.url, "--ttl", "2s", "--idle", "2s")
        self.line(offer)
        offer.kill()
        self.a.process.send_signal(signal.SIGCONT)
        self.finish(process)  # the fetch's worker has read it
        self.eventually(lambda: len(self.b.get("/v1/events?type=region.deleted")["events"]) == 2)
        expired = [event["region"] for event in self.b.get("/v1/events?type=region.deleted")["events"]]
        self.assertEqual(sorted((region["name"], region["idle_ms"], region["expired"]) for region in expired),
                         [("ferry fetch", 2000, True), ("ferry offer", 2000, True)])
        self.assertEqual(self.b.get("/v1/regions")["regions"], [])

    def test_a_command_that_was_stopped_too_long(self):
        """It fails: its region is no more."""
        started, offers = threading.Event(), []

        def stop(data):
            if b'"idle_ms"' in data and started.wait(LIMIT):
                stand_still(offers[0])

        tunnel = self.tunnel(self.a, stop)
        offers.append(self.start("offer", self.file("source", MIB), "-u", tunnel, "--idle", "100ms"))
        started.set()
        self.eventually(lambda: self.a.get("/v1/events?type=region.deleted")["events"])
        offers[0].send_signal(signal.SIGCONT)
        _, errors = self.finish(offers[0], status=1)
        self.assertRegex(errors, r"\Aferry: rgn_\w+ is gone: someone deleted it, or nothing used it for 100 ms\n\Z")
        self.nothing_left(self.a)

    def fetch_from_a_stopped_worker(self, *more):
        """a is stopped between its metadata and its bytes. Returns the offer and the fetch, whose read has begun."""
        self.a.expect("operation failed", "operation ended", "link lost", "peer")
        self.b.expect("operation failed", "operation ended", "link lost", "peer")
        process, url = self.offer(MIB)
        self.ferry("connect", self.a.url, "-u", self.b.url)

        def stop(data):
            if b"nixl_metadata" in data:
                stand_still(self.a.process)

        tunnel = self.tunnel(self.a, stop)
        fetch = self.start("fetch", url.replace(self.a.url, tunnel), "-o", self.directory / "x", "-u", self.b.url, *more)
        self.eventually(lambda: self.b.get("/v1/operations?status=IN_PROGRESS")["operations"])
        self.assertEqual(len(self.files()), 1)  # x.part-PID
        return process, fetch

    def test_a_worker_that_stops_is_told_of_in_time(self):
        """Once, and what it has is named: it may go on later."""
        self.a.expect("operation failed", "operation ended")
        accept = self.start("accept", "-o", self.directory / "x", "--size", MIB, "-u", self.a.url,
                            "--answer-timeout", "1s")
        self.line(accept)
        stand_still(self.a.process)
        started = time.monotonic()
        _, errors = self.finish(accept, status=3)
        self.assertLess(time.monotonic() - started, 10)
        self.assertRegex(errors, rf"\Aferry: {self.a.url}: [^\n]*no answer came for [^\n]* \(is the worker stopped[^\n]*\n"
                                 rf"ferry: what it made stays at {self.a.url} [^\n]*: remove it with ferry (rm op_\w+ rgn_\w+ -u [^\n]*)\n\Z")
        self.a.process.send_signal(signal.SIGCONT)
        self.ferry(*errors.split("remove it with ferry ")[1].split())
        accept = self.start("accept", "-o", self.directory / "x", "--size", MIB, "-u", self.a.url, "--answer-timeout", "1s")
        self.line(accept)
        stand_still(self.a.process)
        accept.send_signal(signal.SIGINT)
        _, errors = self.finish(accept, status=-signal.SIGINT)
        self.assertRegex(errors, r"\Aferry: what it made stays at [^\n]*\nferry: Interrupt: stopped\n\Z")
        self.complains("is the worker stopped", "ls", "-u", self.a.url, "--answer-timeout", "100ms", status=3)
        self.a.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.files(), [])
        self.ferry(*errors.splitlines()[0].split("remove it with ferry ")[1].split())
        self.nothing_left(self.a)

    def test_a_region_that_takes_long_is_given_up_at_once(self):
        """Its id is known before its pages are there, and a signal does not wait for them."""
        region = {"id": "rgn_" + "1" * 16, "size": 1000, "device": "cpu", "state": "preparing", "in_use": 0,
                  "created_at": "2026-01-01T00:00:00Z"}
        asked, ended, deleted = threading.Event(), threading.Event(), []

        def answers(method, path):
            if "wait_ms" in path:
                asked.set()
                ended.wait(LIMIT)
            if method == "DELETE":
                deleted.append(path)
                return http_answer(b"", 204)
            return region

        with self.answering(answers) as url:
            offer = self.start("offer", self.file("source", 1000), "-u", url)
            self.assertTrue(asked.wait(LIMIT))
            offer.send_signal(signal.SIGINT)
            offer.wait(LIMIT)
            ended.set()
            self.assertEqual(self.finish(offer, status=-signal.SIGINT)[1],
                             "ferry: Interrupt: stopped, and nothing was left behind\n")
        self.assertEqual(deleted, ["/v1/regions/rgn_" + "1" * 16])

    def test_a_region_that_may_be_made_later(self):
        """Nobody knows its id before the worker goes on."""
        source = self.file("source", 1000)
        stand_still(self.a.process)
        _, errors = self.ferry("offer", source, "-u", self.a.url, "--answer-timeout", "100ms", status=3)
        self.a.process.send_signal(signal.SIGCONT)
        self.assertRegex(errors, rf"(?m)^ferry: should {self.a.url} still get the request, what it makes stays: see ferry regions -u {self.a.url}$")

    def test_a_quiet_worker_is_followed_on(self):
        """However long nothing happens: its wait is no silence."""
        follow = self.start("events", "--follow", "-u", self.a.url, "--answer-timeout", "1s")
        self.region(self.a, 1)
        self.assertIn("region.", self.line(follow))
        self.assertRaises(subprocess.TimeoutExpired, follow.wait, 2)
        follow.send_signal(signal.SIGINT)
        self.assertEqual(follow.wait(60), 0)

    def test_a_reader_that_leaves(self):
        """As head does: the fetch dies of SIGPIPE, quietly, and so does what is printed to a closed pipe."""
        offer, url = self.offer(MIB)
        fetch = self.start("fetch", url, "-u", self.b.url)
        fetch.stdout.read1(10)
        fetch.stdout.close()
        self.assertEqual((fetch.stderr.read(), fetch.wait(60)), (b"", -signal.SIGPIPE))
        self.finish(offer)
        self.nothing_left(self.a, self.b)

    def test_closed_streams(self):
        """No file and no connection takes their place."""
        offer, url = self.offer(MIB)
        for close, command, reason in ((">&-", ("fetch", url, "-u", self.b.url), "standard output: Bad file descriptor"),
                                       (">&-", ("help",), "standard output: Bad file descriptor"),
                                       (">/dev/full", ("help",), "standard output: No space left on device"),
                                       (">/dev/full", ("top", "-u", self.b.url), "standard output: No space left on device"),
                                       (">/dev/full", ("bench", self.a.url, "-u", self.b.url, "--size", "4096"),
                                        "standard output: No space left on device"),
                                       ("<&-", ("offer", "-", "-u", self.b.url), "standard input: Bad file descriptor")):
            done = subprocess.run(["bash", "-c", f'exec "$@" {close}', "-", FERRY, *command], capture_output=True, timeout=60,
                                  env=environment(self.directory), check=False)
            self.assertEqual((done.returncode, done.stderr.decode()), (2, f"ferry: {reason}\n"), command)
        self.ferry("fetch", url, "-u", self.b.url, "-o", "/dev/null")  # it has not been used up
        self.finish(offer)
        self.nothing_left(self.a, self.b)

    def test_two_signals_at_once_are_one(self):
        """timeout(1) sends its signal to the command and then to its group."""
        offer, _ = self.offer(10)
        stand_still(offer)  # it takes both when it goes on, however late the second one is sent
        for number in (signal.SIGTERM, signal.SIGINT):
            offer.send_signal(number)
        offer.send_signal(signal.SIGCONT)
        _, errors = self.finish(offer, status=-signal.SIGINT)  # the lower number is taken first
        self.assertEqual(errors, "ferry: Interrupt: stopped, and nothing was left behind\n")
        self.nothing_left(self.a)

    def test_ctrl_backslash_cleans_up_too(self):
        before = signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell starts what it puts into the background without it
        self.addCleanup(signal.signal, signal.SIGQUIT, before)
        offer, _ = self.offer()
        offer.send_signal(signal.SIGQUIT)
        self.assertEqual(self.finish(offer, status=-signal.SIGQUIT)[1], "ferry: Quit: stopped, and nothing was left behind\n")
        self.nothing_left(self.a)

    def test_nohup_is_obeyed(self):
        offer = subprocess.Popen(["nohup", FERRY, "offer", self.file("source", 10), "-u", self.a.url], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(self.directory))
        self.started.append(offer)
        url = self.line(offer)
        offer.send_signal(signal.SIGHUP)
        self.ferry("fetch", url, "-o", self.directory / "x", "-u", self.b.url)
        self.finish(offer)

    def test_interrupted_in_the_middle(self):
        process, fetch = self.fetch_from_a_stopped_worker()
        fetch.send_signal(signal.SIGINT)
        _, errors = fetch.communicate(timeout=60)
        self.a.process.send_signal(signal.SIGCONT)
        self.assertEqual(fetch.returncode, -signal.SIGINT)
        self.assertRegex(errors.decode(), r"\Aferry: Interrupt[^\n]*\n\Z")
        self.assertEqual(self.files(), [])
        process.terminate()
        process.wait(60)
        self.nothing_left(self.a, self.b)

    def test_the_peer_dies_half_way(self):
        process, fetch = self.fetch_from_a_stopped_worker()
        self.a.process.kill()
        _, errors = fetch.communicate(timeout=60)
        self.assertEqual(fetch.returncode, 1)
        self.assertRegex(errors.decode(), r"\Aferry: op_[^\n]* did not complete: peer-lost[^\n]*\n\Z")
        self.assertEqual(self.files(), [])
        self.nothing_left(self.b)
        # The offer's own worker is gone, and with it what it had.
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3)
        self.assertRegex(errors.decode(), r"\Aferry: is a worker running at [^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main(verbosity=2)
