# SPDX-License-Identifier: Apache-2.0
"""ferry.Client against ferryd: everything over its URL."""
import http.client
import os
import threading
import unittest

import ferry
import support

SIZE = 100_000


class TestClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = support.Daemon()
        cls.other = support.Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()
        cls.other.close()

    def setUp(self):
        self.here, self.there = ferry.Client(self.daemon.url), ferry.Client(self.other.url)
        self.addCleanup(self.here.close)
        self.addCleanup(self.there.close)

    def region(self, client, content=None):
        region = client.region(SIZE, name="of-a-test")
        self.addCleanup(region.delete)
        if content is not None:
            region.write(content)
        return region

    def lose_the_next_answer(self):
        """The worker acts on the next request, and the connection ends before the answer is taken."""
        ((connection, _),) = self.here._http.idle
        answer = connection.getresponse

        def lose():
            answer().read()
            raise http.client.RemoteDisconnected

        connection.getresponse = lose

    def test_read_and_write_between_two_workers(self):
        content = os.urandom(SIZE)
        source, target = self.region(self.there, content), self.region(self.here)
        read = self.here.read(target, self.there.offer(source)).wait(timeout=30)
        self.assertEqual((read.status, read.transport, target.read()), ("COMPLETE", "shm", content))
        back = self.region(self.there)
        offer = self.there.offer(back, writable=True, ttl_ms=5000)
        self.here.write(target, offer.metadata_url).wait(timeout=30)
        self.assertEqual(offer.wait(timeout=30).kind, "writable")
        self.assertEqual(back.read(), content)

    def test_parts_of_regions(self):
        source, target = self.region(self.there, b"0123456789"), self.region(self.here)
        offer = self.there.offer(source.slice(2, 3), source.slice(7, 1))
        self.here.read([target.slice(0, 3), target.slice(10, 1)], offer).wait(timeout=30)
        offer.wait(timeout=30)  # which ends a moment later, and has the region until then
        self.assertEqual(target.read(0, 11), b"234" + bytes(7) + b"7")
        self.assertEqual((target.read(SIZE), target.read(SIZE, 0), target.read(SIZE - 1)), (b"", b"", b"\0"))
        # HTTP has no range of these and would give all of it, or cuts them at the end.
        for offset, size in ((-1, 5), (-1, None), (5, -1), (SIZE - 1, 2), (SIZE + 1, None), (0, SIZE + 1)):
            with self.assertRaisesRegex(ValueError, f"in a region of {SIZE}"):
                target.read(offset, size)

    def test_parts_of_an_offer_that_stands(self):
        source, target = self.region(self.there, b"0123456789"), self.region(self.here)
        with self.there.offer(source, unlimited=True) as offer:
            for remote in (offer.metadata, offer.metadata_url):
                self.here.read(target.slice(0, 3), remote, parts=[(7, 2), (0, 1)]).wait(timeout=30)
                self.assertEqual(target.read(0, 4), b"780\0")
                target.write(bytes(3))
            self.assertEqual((offer.body["unlimited"], offer.refresh().done), (True, False))
        with support.fails("gone"):
            offer.refresh()

    def test_a_region_larger_than_any_memory(self):
        for size in (1 << 60, (1 << 53) - 1):
            with self.assertRaises(ferry.FerryError) as raised:
                self.here.region(size)
            self.assertGreaterEqual(raised.exception.status, 400)

    def test_content_is_mapped_where_the_worker_is_local(self):
        region = self.region(self.here)
        with region.buffer() as memory:
            memory[5:10] = b"mmap!"
            self.assertEqual(region.read(5, 5), b"mmap!")  # while it is mapped
        with region.buffer(writable=False) as memory:
            self.assertEqual(bytes(memory[5:10]), b"mmap!")
            with self.assertRaises(TypeError):
                memory[0] = 1

    def test_a_region_that_goes_when_it_is_idle(self):
        region = self.here.region(SIZE, idle_ms=600000)
        self.addCleanup(region.delete)
        self.assertEqual(self.here.find_region(region.id).body["idle_ms"], 600000)

    def test_content_goes_by_http_where_it_is_not(self):
        region = self.region(self.here)
        region.path = ""
        with region.buffer() as memory:
            memory[5:10] = b"http!"
            self.assertEqual(region.read(5, 5), bytes(5))
        self.assertEqual(region.read(5, 5), b"http!")
        self.assertEqual(region.read(7, 0), b"")

    def test_numpy_shares_the_mapping(self):
        numpy = support.needs("numpy")
        region = self.region(self.here)
        with region.buffer() as memory:
            numpy.frombuffer(memory, dtype="u4")[3] = 0x01020304
        self.assertEqual(region.read(12, 4), bytes((4, 3, 2, 1)))

    def test_a_forked_process_has_connections_of_its_own(self):
        first, second = self.region(self.here), self.region(self.here)
        child = os.fork()
        if not child:
            os._exit(any(self.here.find_region(second.id).id != second.id for _ in range(50)))
        answers = {self.here.find_region(first.id).id for _ in range(50)}
        self.assertEqual((os.waitpid(child, 0)[1], answers), (0, {first.id}))

    def test_a_post_whose_answer_is_lost_acts_once(self):
        before = len(list(self.here.regions()))
        self.lose_the_next_answer()
        self.region(self.here)
        self.assertEqual(len(list(self.here.regions())), before + 1)

    def test_a_delete_whose_answer_is_lost_is_done(self):
        region = self.here.region(4096)
        self.lose_the_next_answer()
        region.delete()
        with support.fails("not-found"):
            region.delete()

    def test_a_failed_operation_raises(self):
        source, target = self.region(self.there), self.region(self.here)
        offer = self.there.offer(source)
        offer.cancel()
        with self.assertRaises(ferry.OperationFailed) as raised:
            offer.wait(timeout=5)
        self.assertEqual((raised.exception.code, raised.exception.status_name), ("cancelled", "CANCELLED"))
        with self.assertRaises(ferry.FerryError) as raised:
            self.here.read(target, {"not": "metadata"})
        self.assertEqual((raised.exception.code, raised.exception.status), ("invalid-metadata", 400))

    def test_waiting_has_an_end(self):
        with self.there.offer(self.region(self.there)) as offer, self.assertRaises(TimeoutError):
            offer.wait(timeout=0.05)

    def test_lists(self):
        region = self.region(self.there)
        offers = [self.there.offer(region) for _ in range(3)]
        self.assertIn(region.id, [one.id for one in self.there.regions()])
        self.assertEqual(self.there.find_region(region.id).name, "of-a-test")
        listed = [one.id for one in self.there.operations(kind="readable", status="INITIALIZED", limit=2)]
        self.assertTrue({one.id for one in offers} <= set(listed))
        self.assertEqual(self.there.find_operation(offers[0].id).kind, "readable")
        for offer in offers:
            offer.delete()
        self.assertIn("name", self.there.worker())

    def test_what_a_worker_tells(self):
        peer = self.there.connect(self.here.url)
        self.assertEqual(peer["worker"], self.here.worker()["name"])
        self.assertIn((peer["epoch"], "connected"), [(one["epoch"], one["status"]) for one in self.there.peers()])
        self.assertGreater(self.here.limits()["ids_max"], 0)
        self.assertIn("shm", self.here.devices()["transports"])
        self.assertEqual(self.region(self.here).body["state"], "ready")

    def test_events_tell_what_happened_and_what_happens(self):
        region = self.region(self.here)
        past = list(self.here.events())
        self.assertIn(("region.created", region.id), [(one["type"], one.get("region", {}).get("id")) for one in past])
        coming = self.here.events(after=past[-1]["id"], label="mine", follow=True)
        theirs, mine = (self.here.offer(region, label=label) for label in ("theirs", "mine"))
        event = next(coming)
        self.assertEqual((event["type"], event["operation"]["id"]), ("operation.created", mine.id))
        mine.delete()
        self.assertEqual(next(coming)["type"], "operation.ended")
        theirs.delete()

    def test_an_offer_follows_a_read(self):
        content = os.urandom(SIZE)
        source, between, target = self.region(self.there, content), self.region(self.here), self.region(self.there)
        read = self.here.read(between, self.there.offer(source), relay=True)
        follower = self.there.read(target, self.here.offer(between, follow=read)).wait(timeout=30)
        self.assertEqual((follower.status, target.read()), ("COMPLETE", content))
        self.assertEqual(read.wait(timeout=30).status, "COMPLETE")

    def test_no_error_repeats_a_secret(self):
        for url, token in (("http://user:secret@127.0.0.1", None), ("http://user:se/cret@h", None),
                           ("ftp://user:secret@h", None), (self.here.url, "secret\n")):
            with self.assertRaises(ValueError) as raised:
                ferry.Client(url, token)
            self.assertNotIn("cret", str(raised.exception))

    def test_a_region_is_spread_to_all_but_those_that_do_not_answer(self):
        content = os.urandom(SIZE)
        source = self.region(self.there, content)
        nobody = ferry.Client("unix:" + os.path.join(os.environ["FERRY_LOCAL"], "nobody.sock"))
        first, missing, last = ferry.spread(source, [self.here, nobody, self.there], name="copy", timeout=30)
        for copy in (first, last):
            self.addCleanup(copy.delete)
            self.assertEqual((copy.name, copy.read()), ("copy", content))
        self.assertIsInstance(missing, OSError)

    def test_a_worker_that_dies_is_left_out(self):
        dying = support.Daemon()
        source = self.region(self.there, os.urandom(SIZE))
        class Doomed(ferry.Client):
            def read(self, *arguments, **fields):
                read = super().read(*arguments, **fields)
                dying.process.kill()
                dying.process.wait(30)
                return read

        first, missing, last = ferry.spread(source, [self.here, Doomed(dying.url), self.there], timeout=60)
        self.assertIsInstance(missing, OSError)
        for copy in (first, last):
            self.assertEqual(copy.read(), source.read())
            copy.delete()
        dying.close()

    def test_a_spread_that_fails_leaves_nothing(self):
        regions = sorted(one.id for one in self.here.regions())
        source = self.there.region(SIZE)
        source.delete()
        with self.assertRaises(ferry.FerryError):
            ferry.spread(source, [self.here, self.here])
        self.assertEqual(sorted(one.id for one in self.here.regions()), regions)

    def test_threads_share_a_client(self):
        region, problems = self.region(self.here, b"x" * SIZE), []

        def read():
            for _ in range(20):
                if region.read(10, 10) != b"x" * 10:
                    problems.append("other bytes")

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])

    def test_what_is_no_worker(self):
        for url in ("ftp://127.0.0.1", "127.0.0.1:9300", "http://"):
            with self.assertRaises(ValueError):
                ferry.Client(url)

    def test_a_unix_socket(self):
        path = os.path.join(os.environ["FERRY_LOCAL"], "http.sock")
        daemon = support.Daemon("--listen", f"unix:{path}")
        try:
            with ferry.Client(f"unix:{path}") as client:
                region = client.region(10)
                region.write(b"by a unix ")
                self.assertEqual(region.read(), b"by a unix ")
        finally:
            daemon.close()


if __name__ == "__main__":
    support.main()
