#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ferry spread: a file, or what a worker offers, to many workers."""
import json
import re
import signal
import socket
import threading
import unittest
import urllib.request

from workers import LIMIT, Case

MIB = 1 << 20
NETWORK = ("--local", "off", "--data-listen", "127.0.0.1:0", "--transports", "tcp,self")


class Spread(Case):
    def members(self, n, *flags):
        members = [self.worker(f"w{i}", *flags) for i in range(1, n + 1)]
        lines = [f"{worker.name} {worker.url}\n" for worker in members]
        self.names("".join(lines))
        return members

    def content(self, worker, region):
        with urllib.request.urlopen(f"{worker.url}/v1/regions/{region}/content", timeout=LIMIT) as answer:
            return answer.read()

    def holds(self, worker, region, data):
        """The region has the bytes, and is all that the worker has."""
        self.assertEqual(self.content(worker, region) == data, True, worker.name)
        self.assertEqual(worker.left(), [region], worker.name)

    def test_a_file_comes_to_all(self):
        source, members = self.worker("source"), self.members(4)
        file = self.file("file", 3 * MIB + 17)
        output, errors = self.ferry("spread", file, "@w1", "@w2", members[2].url, "@w4", "-u", source.url, "--name", "x")
        self.assertEqual(errors, "")
        lines = output.decode().split()
        self.assertEqual([line.split("rgn_")[0] for line in lines],
                         ["@w1/", "@w2/", members[2].url + "/v1/regions/", "@w4/"])
        for worker, line in zip(members, lines):
            self.holds(worker, line[line.index("rgn_"):], file.read_bytes())
            self.assertEqual(worker.get("/v1/regions")["regions"][0]["name"], "x")
        self.nothing_left(source)

    def test_an_offer_comes_to_all(self):
        source, members = self.worker("source"), self.members(3, *NETWORK)
        source.expect("HTTP")
        file = self.file("file", 20 * MIB)
        offer = self.start("offer", file, "--url", source.url)
        output, _ = self.ferry("spread", self.line(offer), "@w1", "@w2", "@w3", "--json")
        report = json.loads(output)
        self.assertEqual((report["size"], [m["worker"] for m in report["members"]], {m["status"] for m in report["members"]}),
                         (20 * MIB, ["@w1", "@w2", "@w3"], {"COMPLETE"}))
        self.assertEqual([m["transport"] for m in report["members"]], ["http", "tcp", "tcp"])
        self.finish(offer)
        for worker, member in zip(members, report["members"]):
            self.holds(worker, member["region"], file.read_bytes())

    def test_regions_that_workers_have_are_filled(self):
        source, members = self.worker("source"), self.members(3)
        file = self.file("file", MIB)
        regions = [self.region(worker, MIB + 5, b"x" * (MIB + 5)) for worker in members]
        into = [f"@w1/{regions[0]}", f"{members[1].url}/v1/regions/{regions[1]}", f"@w3/{regions[2]}"]
        output, errors = self.ferry("spread", file, *into, "-u", source.url)
        self.assertEqual((output.decode().split(), errors), (into, ""))
        for worker, region in zip(members, regions):
            self.holds(worker, region, file.read_bytes() + b"x" * 5)
        self.nothing_left(source)

    def test_a_region_that_workers_have_is_never_deleted(self):
        source, (first, second) = self.worker("source"), self.members(2)
        file, small = self.file("file", MIB), self.region(first, 7, b"x" * 7)
        output, errors = self.ferry("spread", file, f"@w1/{small}", "@w2/rgn_0000000000000000", "@w2", "-u", source.url,
                                    status=1)
        self.assertIn(f"@w1 is left out: its region has only 7 of {MIB} bytes", errors)
        self.assertIn("@w2 is left out", errors)
        self.assertIn("1 of 3 workers have the bytes", errors)
        self.holds(first, small, b"x" * 7)
        self.holds(second, output.decode().split()[0].removeprefix("@w2/"), file.read_bytes())

    def offer(self, source, size):
        """Of a region with a pattern. Returns its URL and its bytes."""
        data = (b"".join(i.to_bytes(4, "little") for i in range(MIB // 4)) * (size // MIB))[:size]
        region = self.region(source, size, data)
        self.offered = source.offer(region, uses=4)["id"]
        return f"{source.url}/v1/operations/{self.offered}", data

    def start_half(self, members, moves):
        """A command whose source waits in the middle until an event is set, when that member has bytes."""
        source, gate = self.source_that_waits(16 * MIB)
        for worker in members:
            worker.expect("peer-lost", "operation ended", "stale-metadata")
        url, data = self.offer(source, 32 * MIB)
        process = self.start("spread", url, *(f"@{worker.name}" for worker in members))
        self.has_arrived(members[moves], 1)
        return process, data, source, gate

    def test_one_that_cannot_read_keeps_no_region(self):
        source, (member,) = self.worker("source"), self.members(1)
        other = self.worker("other", "--local", "off", "--allow-peer", "192.0.2.1")
        other.expect("no transport but HTTP", "operation ended")
        file = self.file("file", MIB)
        output, errors = self.ferry("spread", file, "@w1", other.url, "-u", source.url, status=1)
        self.assertIn(f"{other.url} is left out: ", errors)
        self.holds(member, output.decode().strip().removeprefix("@w1/"), file.read_bytes())
        self.nothing_left(other, source)

    def received(self, worker):
        """Bytes that its reads have got, those that failed included."""
        with urllib.request.urlopen(worker.url + "/metrics", timeout=LIMIT) as answer:
            lines = re.findall(r'^ferry_transferred_bytes_total\{[^}]*"received"[^}]*\} (\d+)$', answer.read().decode(), re.M)
        return sum(map(int, lines))

    def source_that_waits(self, half):
        """A worker that answers no request for content behind the first half until an event is set. Returns both."""
        listener, gate = socket.create_server(("127.0.0.1", 0)), threading.Event()

        def hold(data):  # not after so many bytes: several connections share the first half as the machine pleases
            asked = re.search(rb"\r\nContent-Range: bytes (\d+)-", data)
            if asked and int(asked[1]) >= half:
                gate.wait(LIMIT)

        source = self.worker("source", "--local", "off", "--advertise", f"http://127.0.0.1:{listener.getsockname()[1]}")
        self.tunnel(source, hold, listener)
        source.expect("no transport but HTTP", "peer-lost", "operation ended")
        return source, gate

    def has_arrived(self, worker, size):
        """Waits until that much of what it reads is there."""
        self.eventually(lambda: any(one["kind"] == "read" and one["bytes_done"] >= size
                                    for one in worker.get("/v1/operations")["operations"]))

    def test_one_that_dies_is_left_out_and_what_has_arrived_is_not_sent_again(self):
        size, half = 32 * MIB, 16 * MIB
        for victim in (0, 1, 2):
            source, gate = self.source_that_waits(half)
            members = self.members(3, *NETWORK)
            file = self.file("file", size)
            process = self.start("spread", file, "@w1", "@w2", "@w3", "--url", source.url)
            survivors = [worker for worker in members if worker is not members[victim]]
            for worker in members:
                worker.expect("peer-lost", "operation ended", "stale-metadata")
            # The last one has what the source has let out: nothing is on its way.
            self.has_arrived(members[2], half)
            members[victim].kill()
            gate.set()
            output, errors = self.finish(process, status=1)
            self.assertRegex(errors, rf"@w{victim + 1} is left out: .*\n(.*\n)*ferry: 2 of 3 workers have the bytes\n")
            self.assertEqual([line.split("/")[0] for line in output.decode().split()], [f"@{worker.name}" for worker in survivors])
            for worker in survivors:
                # What was on its way when a link ended is lost, and not more.
                self.assertLess(self.received(worker), size + half // 4, worker.name)
                self.holds(worker, worker.get("/v1/regions")["regions"][0]["id"], file.read_bytes())
            for worker in [*members, source]:
                worker.stop()

    def test_nothing_is_left_when_it_is_interrupted(self):
        members = self.members(3, *NETWORK)
        process, _, source, gate = self.start_half(members, 2)
        process.send_signal(signal.SIGINT)
        _, errors = self.finish(process, status=-signal.SIGINT)
        self.assertIn("nothing was left behind", errors)
        gate.set()
        self.ferry("rm", self.offered, "-u", source.url)
        self.nothing_left(*members)

    def test_what_cannot_begin_is_told(self):
        source, (member,) = self.worker("source"), self.members(1)
        file = self.file("file", MIB)
        self.complains("no worker nobody", "spread", file, "@nobody", "-u", source.url, status=2)
        _, errors = self.ferry("spread", file, "http://127.0.0.1:1", "@w1", "-u", source.url, status=1)
        self.assertIn("http://127.0.0.1:1 is left out", errors)
        self.assertEqual(len(member.left()), 1)
        self.nothing_left(source)
        _, errors = self.ferry("spread", file, "http://127.0.0.1:1", "-u", source.url, status=1)
        self.assertIn("0 of 1 workers have the bytes", errors)
        self.nothing_left(source)


if __name__ == "__main__":
    unittest.main()
