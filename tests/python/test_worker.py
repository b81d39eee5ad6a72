# SPDX-License-Identifier: Apache-2.0
"""ferry.Worker: the worker inside this process, without the API of nixl_connect."""
import asyncio
import contextlib
import copy
import errno
import gc
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock

import ferry
import support


class TestWorker(unittest.TestCase):
    def setUp(self):
        self.worker = ferry.Worker()
        self.addCleanup(self.worker.close)

    def test_transfers_without_asyncio(self):
        target = bytearray(5)
        with self.worker.create("readable", [b"hello"]) as offer:
            with self.worker.create("read", [target], remote=offer.metadata, timeout_ms=5000, verify=True) as read:
                read.wait(timeout=10)
            offer.wait(timeout=10)
        self.assertEqual((target, read.status, read.transport), (b"hello", "COMPLETE", "shm"))
        self.assertEqual((read.bytes_done, read.bytes_total), (5, 5))

    def test_the_same_over_rest(self):
        worker = ferry.Worker(listen=["127.0.0.1:0"], name="of-python")
        self.addCleanup(worker.close)
        memory = worker.allocate(100, name="shared")
        memory[:5] = b"bytes"
        offer = worker.create("readable", [memory], ttl_ms=60_000)
        with ferry.Client(worker.urls[0]) as client:
            self.assertEqual(client.worker()["name"], "of-python")
            region, = client.regions()
            self.assertEqual((region.name, region.read(0, 5)), ("shared", b"bytes"))
            self.assertEqual(client.find_operation(offer.id).status, "INITIALIZED")
            for refused, code in ((region.delete, "region-held"), (lambda: region.write(b"x"), "forbidden")):
                with support.fails(code):
                    refused()
            client.find_operation(offer.id).cancel()
        with support.fails("cancelled", ferry.OperationFailed):
            offer.wait(timeout=10)
        self.assertEqual(bytes(memory[:5]), b"bytes")

    def test_errors_say_what_is_wrong(self):
        for make, code in ((lambda: ferry.Worker(listne="x"), "invalid-parameter"),
                           (lambda: ferry.Worker(listen="0.0.0.0:0"), "invalid-parameter"),
                           (lambda: self.worker.create("read", [bytearray(1)]), "invalid-parameter"),
                           (lambda: self.worker.create("readable", [b"x"], colour="red"), "unknown-field"),
                           (lambda: self.worker.create("readable", [b"x"], ttl_ms=-1), "invalid-parameter")):
            with support.fails(code) as raised:
                make()
            self.assertTrue(raised.exception.detail)

    def test_limits_are_named_as_a_program_sets_them(self):
        worker = ferry.Worker(max_operations=1, memory_limit="1M")
        self.addCleanup(worker.close)
        offer = worker.create("readable", [b"x"])
        for make, told in ((lambda: worker.create("readable", [b"x"]), "FERRY_MAX_OPERATIONS is 1"),
                           (lambda: worker.allocate(2 << 20), "FERRY_MEMORY_LIMIT is 1048576")):
            with self.assertRaisesRegex(ferry.FerryError, told + ".*before the worker is made") as raised:
                make()
            self.assertEqual(raised.exception.code, "limit-reached")
        self.assertFalse(offer.done)

    def test_an_offer_follows_a_read(self):
        worker = ferry.Worker(listen="127.0.0.1:0")
        self.addCleanup(worker.close)
        source, between, target = (worker.allocate(1 << 20) for _ in range(3))
        source[:] = os.urandom(1 << 20)
        offer = worker.create("readable", [source])
        first = worker.create("read", [between], remote=offer.metadata, relay=True)
        followed = worker.create("readable", [between], follow=first)
        worker.create("read", [target], remote=followed.metadata).wait(30)
        self.assertEqual(target, source)
        with ferry.Client(worker.urls[0]) as client:
            self.assertTrue(client.find_operation(first.id).body["relay"])
            self.assertEqual(client.find_operation(followed.id).body["follow"], first.id)
        with self.assertRaisesRegex(ferry.FerryError, "Only a read can be followed"):
            worker.create("readable", [between], follow=offer)

    def test_blocks_and_rows(self):
        memory = self.worker.allocate(64)
        memory[:] = bytes(range(64))
        whole, target = self.worker.region(memory), bytearray(12)
        for part, expected in ((whole.blocks(4, [7, 0, 3]), bytes([28, 29, 30, 31, 0, 1, 2, 3, 12, 13, 14, 15])),
                               (whole.slice(1, 63).row(3, 4, 10), bytes(b + 10 * i for i in range(4) for b in (1, 2, 3)))):
            offer = self.worker.create("readable", [part])
            self.worker.create("read", [target], remote=offer.metadata).wait(timeout=10)
            self.assertEqual(target, expected)
        with support.fails("out-of-bounds"):
            self.worker.create("readable", [whole.blocks(4, [16])])
        for again in (lambda: whole.row(1, 2, 3).slice(0, 1), lambda: whole.blocks(4, [1]).row(1, 2, 3)):
            with self.assertRaisesRegex(ValueError, "pieces"):
                again()

    def test_parts_of_an_offer(self):
        source, target = bytes(range(100)), bytearray(12)
        offer = self.worker.create("readable", [source[:50], source[50:]], layout="stream", uses="unlimited")
        for parts, expected in (([(48, 4), (0, 8)], source[48:52] + source[:8]), ([(88, 12)], source[88:])):
            self.worker.create("read", [target], offer.metadata, parts=parts).wait(timeout=10)
            self.assertEqual(target, expected)
        into = bytearray(20)
        writable = self.worker.create("writable", [into])
        self.worker.create("write", [b"ab"], writable.metadata, parts=[(19, 1), (5, 1)]).wait(timeout=10)
        self.assertEqual(into, bytes(5) + b"b" + bytes(13) + b"a")
        self.assertEqual((offer.status, offer.bytes_done), ("IN_PROGRESS", 12))
        for parts, code in (([], "invalid-parameter"), ([(0, 0)], "invalid-parameter"), ([(0, 8), (7, 4)], "invalid-parameter"),
                            ([(0, 11)], "size-mismatch"), ([(89, 12)], "out-of-bounds"), ([(1 << 63, 12)], "out-of-bounds")):
            with support.fails(code):
                self.worker.create("read", [target], offer.metadata, parts=parts)
        with self.assertRaises(ferry.FerryError):
            self.worker.create("readable", [source], parts=[(0, 1)])

    def test_what_is_none_is_not_given(self):
        worker = ferry.Worker(listen=None, name=None, memory_limit="1G", no_auth=False)
        self.addCleanup(worker.close)
        target = bytearray(1)
        offer = worker.create("readable", [b"x"], label=None)
        worker.create("read", [target], remote=offer.metadata, label=None, transports=["shm", "tcp"]).wait(timeout=10)
        self.assertEqual(target, b"x")

    def test_waiting_has_an_end(self):
        offer = self.worker.create("readable", [b"x"])
        with self.assertRaises(TimeoutError):
            offer.wait(timeout=0.01)

    def test_a_signal_interrupts_a_wait(self):
        class Alarm(Exception):
            pass

        def ring(*_):
            raise Alarm

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, ring))
        offer = self.worker.create("readable", [b"x"], ttl_ms=5000)
        with self.assertRaises(Alarm):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            offer.wait()
        self.assertEqual(offer.status, "INITIALIZED")

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(ValueError, "readable, read, writable, write"):
            self.worker.create("reed", [b"x"])
        for remote in ({}, b"{}"):
            with self.assertRaisesRegex(TypeError, "JSON"):
                self.worker.create("read", [bytearray(1)], remote=remote)
        for address, size in ((0, 1), (-1, 1), (4096, 0), (1 << 64, 1), (4096, 1 << 64)):
            with self.assertRaisesRegex(ValueError, "no memory"):
                self.worker.register(address, size)

    def test_numbers_and_texts_that_c_does_not_have(self):
        whole = self.worker.region(bytearray(8))
        for size in (-1, (1 << 64) + 5):
            for call in (self.worker.allocate, lambda one: whole.row(one, 1, 0), lambda one: whole.blocks(1, [one])):
                with self.assertRaisesRegex(ValueError, "64 bits"):
                    call(size)
        for size in ("5", 1.5, None):
            with self.assertRaises(TypeError):
                self.worker.allocate(size)
        for call in (lambda: self.worker.allocate(1, name="a\0b"), lambda: ferry.Worker(name="a\0b"),
                     lambda: self.worker.create("readable", [b"x"], label="a\0b"),
                     lambda: self.worker.create("read", [bytearray(1)], remote="{}\0")):
            with self.assertRaisesRegex(ValueError, "NUL"):
                call()
        self.assertEqual(self.worker.create("readable", [b"abc"]).bytes_total, 3)

    def test_what_belongs_to_the_process_is_neither_copied_nor_pickled(self):
        data = bytearray(3)
        for one in (self.worker.region(data), self.worker.create("readable", [data])):
            for copier in (copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "belongs to this process"):
                    copier(one)

    def test_memory_outlives_the_worker(self):
        memory = self.worker.allocate(100)
        part = memory[10:20]
        offer = self.worker.create("readable", [part])
        self.worker.close()
        self.assertEqual(offer.status, "CANCELLED")
        memory[10] = 7
        self.assertEqual(part[0], 7)
        with support.fails("closed"):
            self.worker.create("readable", [b"x"])
        self.assertIsNotNone(self.worker._native.pointer)
        del memory, part, offer
        gc.collect()
        self.assertIsNone(self.worker._native.pointer)

    def test_closing_spares_what_another_thread_is_doing(self):
        def fill():
            with contextlib.suppress(ferry.FerryError):
                memory = worker.allocate(32 << 20)
                memory[::4096] = bytes(len(memory[::4096]))

        for wait_ms in range(0, 12, 2):
            worker = ferry.Worker()
            filler = threading.Thread(target=fill)
            filler.start()
            filler.join(wait_ms / 1000)
            worker.close()
            filler.join()

    def test_the_last_call_frees_a_closed_worker(self):
        with self.worker._native:
            self.worker.close()
            self.assertIsNotNone(self.worker._native.pointer)
        self.assertIsNone(self.worker._native.pointer)

    def test_metadata_of_a_closed_worker(self):
        offer = self.worker.create("readable", [b"x"])
        self.worker.close()
        with self.assertRaises(ferry.FerryError) as raised:
            _ = offer.metadata
        self.assertEqual((raised.exception.code, offer.status), ("closed", "CANCELLED"))

    def test_a_forked_process_does_not_wait_for_threads_that_it_lacks(self):
        memory = self.worker.allocate(1)
        self.worker.close()
        held, forked = threading.Event(), threading.Event()

        def hold():
            with self.worker._native._lock:
                held.set()
                forked.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        child = os.fork()
        if not child:
            signal.alarm(5)
            del memory
            gc.collect()
            os._exit(0)
        forked.set()
        holder.join()
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_regions_go_with_their_memory(self):
        worker = ferry.Worker(listen="127.0.0.1:0")
        self.addCleanup(worker.close)
        with ferry.Client(worker.urls[0]) as client:
            memory = worker.allocate(1000)
            offer = worker.create("readable", [bytearray(10), memory])
            self.assertEqual(len(list(client.regions())), 2)
            offer.cancel()
            offer.close()
            del memory
            gc.collect()
            self.assertEqual(list(client.regions()), [])

    def test_garbage_is_collected_while_memory_is_looked_up(self):
        def collect():
            with self.worker._native.blocks._lock:
                gc.collect()

        gc.disable()
        self.addCleanup(gc.enable)
        cycle = [self.worker.allocate(100)]
        cycle.append(cycle)
        del cycle
        collector = threading.Thread(target=collect, daemon=True)
        collector.start()
        collector.join(10)
        self.assertFalse(collector.is_alive())
        self.assertFalse(self.worker._native.blocks)

    def test_loops_come_and_go(self):
        async def once():
            target = bytearray(3)
            offer = self.worker.create("readable", [b"abc"])
            read = self.worker.create("read", [target], remote=offer.metadata)
            await asyncio.gather(offer.completed(), read.completed())
            self.assertEqual(target, b"abc")

        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            asyncio.run(once())
        gc.collect()
        self.assertLess(len(os.listdir("/proc/self/fd")), before + 5)

    def test_loops_of_another_kind(self):
        """A coroutine that is run without asyncio, as by trio."""
        async def wait(operation):
            async with operation:
                await operation.completed()

        offer = self.worker.create("readable", [b"x"])
        with self.assertRaisesRegex(RuntimeError, "asyncio.*trio.to_thread"):
            wait(offer).send(None)
        self.assertEqual(offer.status, "CANCELLED")
        with self.assertRaises(StopIteration):  # which needs no loop any more
            offer.ended().send(None)

    def test_in_trio(self):
        trio = support.needs("trio")
        target = bytearray(1)
        offer = self.worker.create("readable", [b"x"])
        read = self.worker.create("read", [target], remote=offer.metadata)

        async def wait():
            await trio.to_thread.run_sync(asyncio.run, read.completed())
            try:
                await self.worker.create("readable", [b"x"]).ended()
            except RuntimeError as error:
                return str(error)

        self.assertIn("asyncio", trio.run(wait))
        self.assertEqual(target, b"x")

    def test_waiting_again_and_again_takes_no_more_memory(self):
        async def again():
            offer = self.worker.create("readable", [b"x"])
            for _ in range(20):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(offer.ended(), 0.001)
            (waiters,) = self.worker._queue(asyncio.get_running_loop())._waiters.values()
            self.assertEqual(waiters, [])
            both = asyncio.gather(offer.ended(), offer.ended())
            await asyncio.sleep(0)
            offer.cancel()
            await asyncio.wait_for(both, 10)

        asyncio.run(again())

    def test_the_end_of_a_program_with_operations_is_clean(self):
        code = ("import ferry, os, threading\n"
                "worker = ferry.Worker()\n"
                "memory = worker.allocate(64 << 20)\n"
                "target = bytearray(64 << 20)\n"
                "offers = [worker.create('readable', [memory]) for _ in range(4)]\n"
                "reads = [worker.create('read', [target], remote=one.metadata) for one in offers]\n"
                "forgotten = worker.create('readable', [b'x'])\n")
        before = sorted(os.listdir(os.environ["FERRY_LOCAL"]))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(sorted(os.listdir(os.environ["FERRY_LOCAL"])), before)

    def test_a_library_that_is_not_there(self):
        done = subprocess.run([sys.executable, "-c", "import ferry; ferry.Client; ferry.Worker()"], text=True,
                              env={**os.environ, "FERRY_WORKER_LIBRARY": "/nonexistent.so"}, capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("pip install ./client/python", done.stderr)
        self.assertNotIn("AttributeError", done.stderr)


class TestPeers(unittest.TestCase):
    """What a worker says to another one."""

    def setUp(self):
        self.here, self.there = ferry.Worker(name="here"), ferry.Worker(name="there")
        self.addCleanup(self.here.close)
        self.addCleanup(self.there.close)

    def fails(self, code, call, *arguments, **more):
        with support.fails(code):
            call(*arguments, **more)

    def test_connects_beforehand(self):
        offer = self.there.create("readable", [b"hello"])
        self.here.connect(offer.metadata)
        self.here.connect(json.loads(offer.metadata))
        asyncio.run(asyncio.to_thread(self.here.connect, offer.metadata))
        self.fails("peer-unreachable", self.here.connect, "http://127.0.0.1:1")
        self.fails("invalid-metadata", self.here.connect, "{}")
        with self.here.create("read", [bytearray(5)], remote=offer.metadata) as read:
            read.wait(timeout=10)
        self.assertGreater(read.duration_us, 0)

    def test_declines(self):
        for form in (lambda text: text, json.loads, str.encode):
            offer = self.there.create("readable", [b"hello"])
            self.here.decline(form(offer.metadata))
            with self.assertRaises(ferry.OperationFailed) as failed:
                offer.wait(timeout=10)
            self.assertEqual((failed.exception.code, failed.exception.status_name), ("declined", "CANCELLED"))
        offer = self.there.create("readable", [b"hello"])
        self.here.decline(offer.metadata, timeout=0)
        with self.assertRaises(ferry.OperationFailed):
            offer.wait(timeout=10)

    def test_keeps_and_renews(self):
        offer = self.there.create("readable", [b"hello"], ttl_ms=60_000, renew_max_ms=600_000)
        self.assertAlmostEqual(self.here.renew(offer.metadata, 300_000), 300, delta=10)
        self.assertAlmostEqual(self.here.renew(offer.metadata, 900_000), 600, delta=10)
        before = offer.metadata
        offer.renew(700_000)
        self.assertNotEqual(offer.metadata, before)
        self.fails("forbidden", self.here.renew, self.there.create("readable", [b"x"]).metadata)
        offer.cancel()
        self.fails("gone", offer.renew)

    def test_ended_operations_without_asyncio(self):
        before = self.here.create("readable", [b"before"])
        self.assertEqual(self.here.ended(), [])
        poll = select.poll()
        poll.register(self.here.ended_fd, select.POLLIN)
        self.assertEqual(poll.poll(0), [])
        offers = [self.here.create("readable", [b"hello"]) for _ in range(5)]
        before.cancel()
        for offer in offers[::-1]:
            self.there.decline(offer.metadata)
        found = []
        while len(found) < len(offers):
            self.assertTrue(poll.poll(10_000))
            found += self.here.ended()
        self.assertEqual(found, offers[::-1])
        self.assertEqual({one.status for one in found}, {"CANCELLED"})
        self.assertEqual(self.here.ended(), [])
        self.assertEqual(poll.poll(0), [])
        self.here.create("readable", [b"x"]).cancel()  # which nobody else keeps
        self.assertTrue(poll.poll(10_000))
        self.assertEqual([one.status for one in self.here.ended()], ["CANCELLED"])

    def test_an_operation_that_cannot_join_the_ended_ones_is_not_kept(self):
        self.assertGreaterEqual(self.here.ended_fd, 0)
        with unittest.mock.patch.object(self.here._ended, "lib") as lib:
            lib.queue_add.return_value = -errno.ENOMEM
            with self.assertRaises(OSError):
                self.here.create("readable", [b"x"])
        self.assertEqual(self.here._ended._operations, {})

    def test_events(self):
        events = self.here.events()
        offer = self.here.create("readable", [b"hello"], label="watched")
        offer.cancel()
        seen = []
        while not seen or seen[-1]["type"] != "operation.ended":
            self.assertTrue(select.select([events], [], [], 10)[0])
            seen += events.take()
        self.assertEqual([one["operation"]["id"] for one in seen if one["type"].startswith("operation.")],
                         [offer.id] * 2)
        again = self.here.events(after=seen[0]["id"]).take()
        self.assertEqual([one["id"] for one in again], [one["id"] for one in seen[1:]])
        self.fails("invalid-parameter", self.here.events, "x")
        self.here.close()
        events.take()


if __name__ == "__main__":
    support.main()
