#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ferry offer, fetch, accept, send and copy: files through two workers."""
import http.server
import json
import os
import pathlib
import threading
import urllib.parse
import signal
import subprocess
import unittest

from workers import Case, FERRY, LIMIT, environment

MIB = 1 << 20


class Files(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = self.worker("a"), self.worker("b")

    def test_a_file_is_offered_and_fetched(self):
        """By two workers, one of which may be at a Unix socket, or by one; the bytes of local regions do not pass HTTP."""
        source, target = self.file("source", 5 * MIB + 3), self.directory / "target"
        c = self.worker("c", listen=(f"unix:{self.directory}/c.sock",))
        for one, other in ((self.a, self.b), (self.a, self.a), (c, self.b)):
            offer = self.start("offer", source, "--url", one.url)
            url = self.line(offer)
            self.assertTrue(url.startswith(one.url + (":" if one is c else "") + "/v1/operations/op_"))
            self.assertEqual(self.ferry("fetch", url, "-o", target, "--verify", "-u", other.url), (b"", ""))
            self.assertEqual(self.finish(offer), (b"", ""))
            self.assertEqual(target.read_bytes(), source.read_bytes())
            target.unlink()
        self.nothing_left(self.a, self.b)
        self.assertEqual(self.content_requests(self.a) + self.content_requests(self.b), [])

    def test_a_large_file_in_memory(self):
        """It is mapped on huge pages, where there are any, and its end is not a whole one."""
        size = 34 * MIB + 3
        source, target = self.file("source", size), self.directory / "target"
        target.write_bytes(b"before")
        target.chmod(0o640)
        offer = self.start("offer", source, "--url", self.a.url)
        self.ferry("fetch", self.line(offer), "-o", target, "-u", self.b.url)
        self.finish(offer)
        self.assertEqual(target.stat().st_mode & 0o777, 0o640)
        self.assertEqual(target.stat().st_blocks * 512 // MIB, size // MIB)
        self.assertTrue(target.read_bytes() == source.read_bytes())
        accept = self.start("accept", "-o", target, "--size", size, "--url", self.b.url)
        self.ferry("send", source, self.line(accept), "-u", self.a.url)
        self.finish(accept)
        self.assertTrue(target.read_bytes() == source.read_bytes())
        self.nothing_left(self.a, self.b)

    def test_a_region_of_another_machine_is_not_taken_for_one_here(self):
        """Its worker has the pid, the port and the descriptor of one here, as the first process of a container may."""
        region = self.region(self.a, 1000, bytes(1000))
        source, stored = self.file("source", 1000), []
        path = self.a.get("/v1/regions/" + region)["path"]

        class Elsewhere(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps({"id": "rgn_" + "1" * 16, "size": 1000, "device": "cpu", "state": "ready",
                                   "path": path, "in_use": 0}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_PUT(self):
                stored.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        port = urllib.parse.urlsplit(self.a.url).port
        with http.server.HTTPServer(("127.0.0.2", port), Elsewhere) as elsewhere:
            thread = threading.Thread(target=elsewhere.serve_forever)
            thread.start()
            self.ferry("copy", source, f"http://127.0.0.2:{port}/v1/regions/rgn_" + "1" * 16, "-u", self.a.url)
            elsewhere.shutdown()
            thread.join()
        self.assertEqual(stored, [source.read_bytes()])
        output, _ = self.ferry("get", f"/v1/regions/{region}/content", "-u", self.a.url)
        self.assertEqual(output, bytes(1000))

    def test_a_symbolic_link_is_followed(self):
        """Also one of an open file, as /dev/stdout is."""
        source, target, other = self.file("source", 1000), self.file("target", 10), self.file("other", 10)
        (self.directory / "elsewhere").mkdir()
        link, opened = self.directory / "elsewhere" / "link", self.directory / "elsewhere" / "opened"
        link.symlink_to("../target")
        opened.symlink_to("/proc/self/fd/1")
        region = self.region(self.a, 1000, source.read_bytes())
        self.ferry("copy", region, link, "-u", self.a.url)
        with open(other, "r+b") as stdout:
            done = subprocess.run([FERRY, "copy", region, str(opened), "-u", self.a.url], stdout=stdout, check=False,
                                  env=environment(self.directory), timeout=LIMIT)
        self.assertEqual(done.returncode, 0)
        for one, bytes_at in ((link, target), (opened, other)):
            self.assertTrue(one.is_symlink(), one)
            self.assertEqual(bytes_at.read_bytes(), source.read_bytes())
        self.assertEqual(sorted(path.name for path in self.directory.rglob("*.part-*")), [])

    def test_a_symbolic_link_that_leads_nowhere_yet_is_followed(self):
        """Through another one, and not round in a circle."""
        source = self.file("source", 1000)
        (self.directory / "elsewhere").mkdir()
        link, target = self.directory / "link", self.directory / "elsewhere" / "target"
        link.symlink_to("elsewhere/next")
        (self.directory / "elsewhere" / "next").symlink_to("target")
        (self.directory / "circle").symlink_to("circle")
        region = self.region(self.a, 1000, source.read_bytes())
        self.ferry("copy", region, link, "-u", self.a.url)
        self.assertTrue(link.is_symlink())
        self.assertEqual(target.read_bytes(), source.read_bytes())
        self.complains("Too many levels of symbolic links", "copy", region, self.directory / "circle", "-u", self.a.url,
                       status=2)
        self.assertEqual(sorted(path.name for path in self.directory.rglob("*.part-*")), [])

    def test_every_name_of_standard_output_is_that(self):
        """What it has already stays, as with cat."""
        region = self.region(self.a, 1000, b"x" * 1000)
        (self.directory / "link").symlink_to("/dev/stdout")
        for name in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", self.directory / "link"):
            with open(self.directory / "log", "wb") as log:
                log.write(b"before")
                log.flush()
                subprocess.run([FERRY, "copy", region, str(name), "-u", self.a.url], stdout=log, check=True,
                               env=environment(self.directory), timeout=LIMIT)
            self.assertEqual((self.directory / "log").read_bytes(), b"before" + b"x" * 1000, name)
        for name in ("-", "/dev/fd/1"):
            self.complains("accept prints the URL on standard output", "accept", "-o", name, "--size", "1K", "-u",
                           self.a.url, status=2)

    def test_an_id_alone_is_of_the_worker_before_the_command(self):
        """With all that its line says, as how to trust it."""
        tls = pathlib.Path(__file__).parent.parent / "api" / "tls"
        own = self.worker("own", "--tls-cert", tls / "server.pem", "--tls-key", tls / "server-key.pem")
        self.names(f"own {own.url} ca-file={tls / 'ca.pem'}\n")
        source, target = self.file("source", 1000), self.directory / "target"
        region = json.loads(self.ferry("@own", "post", "/v1/regions", '{"size": 1000}')[0])["id"]
        self.ferry("@own", "copy", source, region)
        self.ferry("@own", "copy", region, target)
        self.assertEqual(target.read_bytes(), source.read_bytes())
        source.write_bytes(os.urandom(1000))
        self.ferry("@own", "spread", source, region)
        self.ferry("@own", "copy", region, target)
        self.assertEqual(target.read_bytes(), source.read_bytes())

    def content_requests(self, worker):
        output, _ = self.ferry("get", "/metrics", "-u", worker.url)
        return [line for line in output.decode().splitlines()
                if "RegionContent" in line and line.startswith("ferry_http_requests_total") and not line.endswith(" 0")]

    def test_a_worker_that_does_not_run_here_gets_them_by_http(self):
        """Its port is another process's, as behind a tunnel."""
        source, target = self.file("source", 3 * MIB), self.directory / "target"
        tunnel = self.tunnel(self.a)
        offer = self.start("offer", source, "--url", tunnel)
        self.ferry("fetch", self.line(offer), "-o", target, "-u", self.b.url)
        self.finish(offer)
        self.assertEqual(target.read_bytes(), source.read_bytes())
        self.assertIn('putRegionContent",code="204"', "".join(self.content_requests(self.a)))
        self.nothing_left(self.a, self.b)

    def test_standard_streams(self):
        data = os.urandom(300001)
        offer = self.start("offer", "-", "--url", self.a.url, stdin=-1)
        offer.stdin.write(data)
        offer.stdin.close()
        offer.stdin = None
        output, errors = self.ferry("fetch", self.line(offer), "-u", self.b.url)
        self.assertEqual((output, errors), (data, ""))
        self.finish(offer)
        self.nothing_left(self.a, self.b)

    def test_copies_between_files_and_regions_of_two_workers(self):
        self.names(f"b {self.b.url}\n")
        source, target = self.file("source", 70000), self.directory / "target"
        first, second = self.region(self.a, 70000), self.region(self.b, 70000)
        self.ferry("copy", source, first, "-u", self.a.url)
        self.ferry("copy", first, f"@b/{second}", "-u", self.a.url)
        self.ferry("@b", "copy", second, target)
        self.assertEqual(json.loads(self.ferry("connect", "@b", "-u", self.a.url, "--json")[0])["url"], self.b.url)
        self.assertEqual(target.read_bytes(), source.read_bytes())
        self.assertEqual(self.a.left() + self.b.left(), [first, second])
        self.complains("use cp", "copy", source, target, "-u", self.a.url, status=2)
        for ends in ((first, "@b"), ("@b", first), ("@b/x", first)):
            self.complains("a region of a worker is @NAME/rgn_ID", "copy", *ends, "-u", self.a.url, status=2)
        self.complains("only", "copy", self.file("large", 70001), first, "-u", self.a.url, status=2)
        self.ferry("rm", first, "-u", self.a.url)
        self.nothing_left(self.a)

    def test_lists_name_what_there_is(self):
        region = self.region(self.a, 4096)
        self.assertRegex(self.ferry("regions", "-u", self.a.url)[0].decode(), rf"(?m)^{region} .* cpu +ready ")
        self.assertEqual(json.loads(self.ferry("regions", "-u", self.a.url, "--json")[0])[0]["id"], region)
        operation = self.a.offer(region)["id"]
        self.assertIn(operation, self.ferry("ls", "--kind", "READABLE", "-u", self.a.url)[0].decode())
        self.assertEqual(self.ferry("ls", "--kind", "read", "-u", self.a.url), (b"", "No operations.\n"))
        self.assertEqual(json.loads(self.ferry("show", operation, "-u", self.a.url)[0])["id"], operation)
        self.assertIn(operation, self.ferry("top", "--count", 1, "-u", self.a.url)[0].decode())
        self.ferry("cancel", operation, "-u", self.a.url)
        self.assertIn("CANCELLED", self.ferry("ls", "-u", self.a.url)[0].decode())
        self.ferry("rm", operation, region, "-u", self.a.url)
        self.nothing_left(self.a)

    def test_top_counts_every_use_of_an_offer(self):
        source, target = self.region(self.a, 4096), self.region(self.b, 4096)
        offer = self.a.offer(source, uses=3)

        def use(n):
            self.b.read(target, offer["metadata"])
            self.eventually(lambda: self.a.get("/v1/operations/" + offer["id"])["uses_done"] == n)

        def up_ms():
            return self.a.get("/v1/worker")["uptime_ms"]

        def look():
            return json.loads(top.stdout.readline())[0]

        use(1)
        top = self.start("top", "--json", "--interval", "10ms", "--count", 3000, "-u", self.a.url)
        self.assertNotIn("rate", look())
        self.assertNotIn("rate", look())
        self.eventually(lambda: b"\nferry_http_waiters 1\n" in self.ferry("get", "/metrics", "-u", self.a.url)[0])
        rests = up_ms()
        self.eventually(lambda: up_ms() > rests + 2000)
        use(2)
        while "rate" not in (moved := look()):
            pass
        self.assertGreater(moved["rate"], 2048)  # of an interval, not of the rest
        while "rate" in look():  # it goes before top rests again
            pass
        top.send_signal(signal.SIGINT)
        top.communicate()

    def test_top_keeps_what_has_ended_until_something_happens(self):
        """Without its rate of a moment ago."""
        region = self.region(self.a, 4096, bytes(4096))
        top = self.start("top", "--json", "--interval", "1ms", "--count", 3000, "-u", self.a.url)
        self.assertEqual(json.loads(top.stdout.readline()), [])
        offer = self.a.offer(region)["id"]
        self.ferry("fetch", f"{self.a.url}/v1/operations/{offer}", "-o", "/dev/null", "-u", self.b.url)
        while not (rows := json.loads(top.stdout.readline())) or rows[0]["status"] != "COMPLETE" or "rate" in rows[0]:
            pass
        self.assertEqual([(row["id"], row["bytes_done"]) for row in rows], [(offer, 4096)])
        self.ferry("rm", region, "-u", self.a.url)
        while json.loads(top.stdout.readline()):
            pass
        top.send_signal(signal.SIGINT)
        top.communicate()

    def test_events_tell_what_happened_and_what_happens(self):
        self.region(self.a, 4096)
        told = self.ferry("events", "-u", self.a.url)[0].decode().splitlines()
        self.assertEqual(len(told), 1)
        self.assertRegex(told[0], r"^\S+Z region.created rgn_[0-9a-f]{16} .*4\.0 KiB")
        follow = self.start("events", "--follow", "--json", "--label", "mine", "-u", self.a.url)
        for label in ("theirs", "mine"):
            self.a.offer(self.region(self.a, 1), label=label)
        event = json.loads(self.line(follow))
        self.assertEqual((event["type"], event["operation"]["label"]), ("operation.created", "mine"))
        follow.send_signal(signal.SIGINT)
        self.finish(follow)

    def test_bench_and_doctor_between_two_workers(self):
        output, _ = self.ferry("bench", self.b.url, "--size", "64K", "--json", "-u", self.a.url)
        self.assertEqual([one["size"] for one in json.loads(output)], [4096, 65536])
        self.nothing_left(self.a, self.b)
        findings = json.loads(self.ferry("doctor", self.b.url, "--json", "-u", self.a.url)[0])
        self.assertIn("Bytes to b go by shm", " ".join(one["finding"] for one in findings))
        self.assertFalse([one for one in findings if one["level"] == "bad"])
        gpus = [one for one in self.a.get("/v1/devices")["memory"] if one["name"].startswith("cuda")]
        lacks = [one["finding"] for one in findings if one["finding"].startswith("No GPU")]
        self.assertTrue(gpus or len(lacks) == 1, lacks)
        self.assertIn("b", self.ferry("peers", "-u", self.a.url)[0].decode())

    def test_doctor_finds_a_data_port_that_does_not_answer(self):
        c = self.worker("c", "--data-listen", "127.0.0.1:0", "--local", "off", "--transports", "tcp,self")
        d = self.worker("d", "--data-listen", "127.0.0.1:0", "--local", "off", "--transports", "tcp,self")
        findings = json.loads(self.ferry("doctor", d.url, "--json", "-u", c.url)[0])
        text = " ".join(one["finding"] for one in findings)
        self.assertIn("go by tcp", text)
        self.assertIn(f"data port {d.ready['data']} takes connections", text)

    def test_doctor_says_when_a_path_that_failed_is_tried_again(self):
        network = ("--data-listen", "127.0.0.1:0", "--local", "off", "--transports", "tcp,self")
        c = self.worker("c", *network)
        d = self.worker("d", *network, "--advertise", "127.0.0.11", listen=("127.0.0.11:0",))  # where no data port is
        findings = json.loads(self.ferry("doctor", d.url, "--json", "-u", c.url, status=1)[0])
        tcp = [one["finding"] for one in findings if one["finding"].startswith("Not by tcp")]
        self.assertEqual(len(tcp), 1, findings)
        self.assertRegex(tcp[0], r"cannot be reached.*the first transfer after 20\S+Z tries it again")

    def test_doctor_finds_no_fault_in_a_peer_on_a_unix_socket(self):
        c = self.worker("c", listen=(f"unix:{self.directory}/c.sock",))
        findings = json.loads(self.ferry("doctor", c.url, "--json", "-u", self.a.url)[0])
        self.assertFalse([one for one in findings if one["level"] == "bad"])
        self.assertIn("Unix socket", findings[-1]["finding"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
