# SPDX-License-Identifier: Apache-2.0
"""ferry.nixl_connect against another process, and the ways in which programs of dynamo.nixl_connect use it."""
import asyncio
import gc
import os
import signal
import subprocess
import sys
import unittest

import support
from ferry import nixl_connect as connect

SIZE = 300_000


class TestTransfers(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.peer = support.Peer()
        self.connector = connect.Connector()

    def tearDown(self):
        self.assertEqual(self.peer.close(), 0)

    def metadata(self, **call):
        return connect.RdmaMetadata(**self.peer.call(**call)["metadata"])

    async def test_a_read_takes_what_the_peer_offers(self):
        for in_hex in (False, True):
            metadata = self.metadata(do="readable", size=SIZE, fill=7, hex=in_hex)
            self.assertEqual(metadata.nixl_metadata.startswith("b64:"), not in_hex)
            data = bytearray(SIZE)
            async with self.connector.begin_read(metadata, connect.Descriptor(data)) as read:
                await read.wait_for_completion()
            self.assertEqual(data, bytes([7]) * SIZE)
            self.assertEqual(read.status, connect.OperationStatus.COMPLETE)
            self.assertEqual([one.size for one in read.results()], [SIZE])
            self.assertEqual((await self.peer.receive_soon())["status"], "COMPLETE")

    async def test_a_write_gives_what_the_peer_waits_for(self):
        metadata = self.metadata(do="writable", size=SIZE)
        write = await self.connector.begin_write(connect.Descriptor(bytes([9]) * SIZE), metadata)
        await write.wait_for_completion()
        told = await self.peer.receive_soon()
        self.assertEqual((told["status"], told["first"], told["last"], told["same"]), ("COMPLETE", 9, 9, True))

    async def test_the_peer_reads_and_writes_here(self):
        data = bytearray(b"\x05" * SIZE)
        with self.connector.create_readable(connect.Descriptor(data)) as offer:
            self.peer.send(do="read", size=SIZE, metadata=offer.metadata().model_dump())
            await offer.wait_for_completion()
        self.assertEqual((await self.peer.receive_soon())["first"], 5)
        async with self.connector.create_writable(connect.Descriptor(data)) as offer:
            self.peer.send(do="write", size=SIZE, fill=6, metadata=offer.metadata(hex_encode=True).model_dump())
            await offer.wait_for_completion()
        self.assertEqual(data, b"\x06" * SIZE)
        await self.peer.receive_soon()

    async def test_the_passive_side_learns_that_the_peer_cancelled(self):
        metadata = self.metadata(do="readable", size=64, leave=True)
        self.assertEqual((await self.peer.receive_soon())["status"], "CANCELLED")
        read = self.connector.begin_read(metadata, connect.Descriptor(bytearray(64)))
        with support.fails("cancelled-by-peer", connect.OperationFailed):
            await read.wait_for_completion()

    async def test_leaving_a_block_cancels_for_both_sides(self):
        with self.connector.create_readable(connect.Descriptor(b"x" * 64)) as offer:
            metadata = offer.metadata()
        self.assertEqual(offer.status, connect.OperationStatus.CANCELLED)
        told = self.peer.call(do="read", size=64, metadata=metadata.model_dump())
        self.assertEqual(told["code"], "cancelled-by-peer")

    async def test_memory_is_quiet_after_every_way_of_leaving(self):
        size = 32 << 20

        async def leave_async(read):
            async with read:
                pass

        async def leave(read):
            with read:
                pass

        async def leave_by_error(read):
            with self.assertRaises(KeyError):
                with read:
                    raise KeyError
        async def drop(read):
            del read
            gc.collect()

        for way in (leave_async, leave, leave_by_error, drop):
            self.peer.send(do="readable", size=size, fill=0xFF)
            metadata = connect.RdmaMetadata(**self.peer.receive()["metadata"])
            data = bytearray(size)
            makers = [self.connector.begin_read(metadata, connect.Descriptor(data))]
            # Before it has begun, leaving would tell the peer nothing.
            support.until(lambda: makers[0].status != connect.OperationStatus.INITIALIZED)
            await way(makers.pop())
            before = data[:]
            ended = await self.peer.receive_soon()
            self.assertIn(ended["status"], ("COMPLETE", "CANCELLED", "ERRORED"), way.__name__)
            self.assertEqual(data, before, way.__name__)

    async def test_a_peer_that_dies_ends_the_operation(self):
        """A child that it has forked does not hide its death."""
        for linked, forked in ((False, False), (False, True), (True, True)):
            victim = support.Peer()
            data = connect.Descriptor(bytearray(64))
            metadata = connect.RdmaMetadata(**victim.call(do="readable", size=64)["metadata"])
            if linked:
                await self.connector.begin_read(metadata, data).wait_for_completion()
                await asyncio.get_running_loop().run_in_executor(None, victim.receive)
                metadata = connect.RdmaMetadata(**victim.call(do="readable", size=64)["metadata"])
            child = victim.call(do="fork")["child"] if forked else None
            victim.process.kill()
            victim.process.wait(30)
            try:
                read = self.connector.begin_read(metadata, data)
                with self.assertRaises(connect.OperationFailed) as raised:
                    await asyncio.wait_for(read.wait_for_completion(), 3)
                self.assertIn(raised.exception.code, ("peer-unreachable", "peer-lost"))
            finally:
                if forked:
                    os.kill(child, signal.SIGKILL)
                victim.process.stdin.close()
                victim.process.stdout.close()

    async def test_exit_with_operations_running_is_clean(self):
        leaver = support.Peer()
        metadata = connect.RdmaMetadata(**leaver.call(do="exit", size=64)["metadata"])
        self.assertEqual(leaver.process.wait(30), 0)
        read = self.connector.begin_read(metadata, connect.Descriptor(bytearray(64)))
        with self.assertRaises(connect.OperationFailed):
            await asyncio.wait_for(read.wait_for_completion(), 10)
        leaver.close()

    async def test_hundreds_at_once(self):
        sources = [os.urandom(1000) for _ in range(300)]
        targets = [bytearray(1000) for _ in sources]
        offers = [self.connector.create_readable(connect.Descriptor(one)) for one in sources]
        reads = [self.connector.begin_read(offer.metadata(), connect.Descriptor(target))
                 for offer, target in zip(offers, targets)]
        await asyncio.gather(*(one.wait_for_completion() for one in reads + offers))
        self.assertEqual(targets, sources)

    async def test_several_descriptors_go_in_order(self):
        sources = [os.urandom(n) for n in (1, 5000, 70000)]
        targets = [bytearray(len(one)) for one in sources]
        with self.connector.create_readable([connect.Descriptor(one) for one in sources]) as offer:
            read = self.connector.begin_read([connect.Descriptor(one) for one in targets], offer.metadata())
            await read.wait_for_completion()
            await offer.wait_for_completion()
        self.assertEqual(targets, sources)
        self.assertEqual([one.size for one in offer.metadata().to_descriptors()], [1, 5000, 70000])


class TestMakers(unittest.IsolatedAsyncioTestCase):
    """Every way in which programs call the makers."""

    def setUp(self):
        self.connector = connect.Connector()
        self.source, self.target = connect.Descriptor(b"abc"), connect.Descriptor(bytearray(3))

    async def test_awaited(self):
        offer = await self.connector.create_writable(self.target)
        write = await self.connector.begin_write(self.source, offer.metadata())
        await write.wait_for_completion()
        await offer.wait_for_completion()

    async def test_with_of_an_awaited_one(self):
        with await self.connector.create_readable(self.source) as offer:
            with await self.connector.begin_read(self.target, offer.metadata()) as read:
                await read.wait_for_completion()
            await offer.wait_for_completion()

    async def test_async_with(self):
        async with self.connector.create_readable(self.source) as offer:
            async with await self.connector.begin_read(offer.metadata(), self.target) as read:
                await read.wait_for_completion()
            await offer.wait_for_completion()

    async def test_as_tasks(self):
        offer = await asyncio.create_task(self.connector.create_readable(self.source))
        read, = await asyncio.gather(self.connector.begin_read(offer.metadata(), self.target))
        await asyncio.gather(read.wait_for_completion(), offer.wait_for_completion())
        self.assertIsInstance(read, connect.ReadOperation)

    async def test_by_keyword(self):
        offer = self.connector.create_readable(local_descriptors=self.source)
        read = self.connector.begin_read(remote_metadata=offer.metadata(), local_descriptors=[self.target])
        await read.wait_for_completion()
        await offer.wait_for_completion()

    async def test_a_cancelled_operation_raises_nothing_here(self):
        offer = self.connector.create_readable(self.source)
        offer.__exit__(None, None, None)
        await offer.wait_for_completion()
        self.assertEqual(offer.status, connect.OperationStatus.CANCELLED)

    async def test_waiting_can_be_given_up(self):
        offer = self.connector.create_readable(self.source)
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(offer.wait_for_completion(), 0.01)
        self.assertEqual(offer.status, connect.OperationStatus.INITIALIZED)
        await self.connector.begin_read(offer.metadata(), self.target).wait_for_completion()
        await offer.wait_for_completion()

    async def offer_that_stands_still(self):
        """The metadata of an offer of a linked process that has been stopped: a read of it runs until it is cancelled."""
        peer = support.Peer()
        self.addCleanup(peer.kill)
        first, second = (connect.RdmaMetadata(**peer.call(do="readable", size=3)["metadata"]) for _ in range(2))
        await self.connector.begin_read(first, self.target).wait_for_completion()
        peer.stand_still()
        return second

    async def test_memory_is_quiet_however_a_task_ends(self):
        metadata, operations = await self.offer_that_stands_still(), []

        async def read():
            async with self.connector.begin_read(metadata, self.target) as operation:
                operations.append(operation)
                await operation.wait_for_completion()

        task = asyncio.create_task(read())
        for _ in range(2):  # in the block, and while it is left
            await asyncio.sleep(0)
            task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        abandoned = read()
        abandoned.send(None)
        abandoned.close()
        self.assertEqual([one.status for one in operations], [connect.OperationStatus.CANCELLED] * 2)

    async def test_results_before_the_end(self):
        read = self.connector.begin_read(await self.offer_that_stands_still(), self.target)
        with self.assertRaises(RuntimeError):
            read.results()
        read.cancel()
        await read.wait_for_completion()
        with self.assertRaises(RuntimeError):
            read.results()


class TestModels(unittest.TestCase):
    def test_metadata_go_through_json(self):
        offer = connect.Connector().create_readable(connect.Descriptor(b"abc"))
        metadata = offer.metadata()
        self.assertEqual(sorted(metadata.model_dump()),
                         ["descriptors", "notification_key", "nixl_metadata", "operation_kind"][:1] +
                         ["nixl_metadata", "notification_key", "operation_kind"])
        self.assertEqual(connect.RdmaMetadata.model_validate_json(metadata.model_dump_json()), metadata)
        self.assertEqual(metadata.operation_kind, connect.OperationKind.READ)
        with self.assertRaises(ValueError):
            connect.RdmaMetadata(**metadata.model_dump(), colour="red")
        with self.assertRaises(ValueError):
            connect.SerializedDescriptor(device="cpu", ptr=0, size=1)
        with self.assertRaises(ValueError):
            connect.SerializedDescriptor(device="mars", ptr=1, size=1)
        self.assertEqual(metadata.to_descriptors().size, 3)
        metadata.descriptors = []
        with self.assertRaises(ValueError):
            metadata.to_descriptors()

    def test_without_pydantic_the_same(self):
        code = ("import sys; sys.modules['pydantic'] = None\n"
                "import unittest, test_nixl_connect as t\n"
                "assert t.connect.RdmaMetadata.__mro__[1].__name__ == '_Model'\n"
                "unittest.main(module=t, argv=['x', 'TestModels.test_metadata_go_through_json', 'TestMakers'])")
        done = subprocess.run([sys.executable, "-c", code], cwd=support.HERE, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_metadata_of_the_real_wheel(self):
        try:
            from dynamo import nixl_connect as upstream
        except ImportError as error:
            raise unittest.SkipTest(f"dynamo.nixl_connect is not installed ({error})") from None
        offer = connect.Connector().create_readable(connect.Descriptor(b"abc"))
        theirs = upstream.RdmaMetadata.model_validate_json(offer.metadata().model_dump_json())
        read = connect.Connector().begin_read(theirs, connect.Descriptor(bytearray(3)))
        asyncio.run(read.wait_for_completion())

    def test_devices(self):
        for text, kind, number, shown in (("cpu", 1, 0, "cpu"), ("cuda", 2, 0, "cuda:0"), ("cuda:1", 2, 1, "cuda:1"),
                                          ("gpu:1", 2, 1, "cuda:1"), ("xpu:2", 3, 2, "xpu:2")):
            device = connect.Device(text)
            self.assertEqual((device.kind, device.id, str(device)), (kind, number, shown))
        self.assertEqual(connect.Device((connect.DeviceKind.CUDA, 3)), connect.Device("cuda:3"))
        self.assertEqual([str(kind) for kind in connect.DeviceKind][1:], ["cpu", "cuda", "xpu"])
        self.assertEqual([kind.nixl_mem_type for kind in connect.DeviceKind][1:], ["DRAM", "VRAM", "VRAM"])
        for bad in ("tpu", "cuda:x", (connect.DeviceKind.UNSPECIFIED, 0)):
            with self.assertRaises(ValueError):
                connect.Device(bad)

    def test_numbers_of_the_enums(self):
        self.assertEqual([int(one) for one in connect.OperationStatus], [0, 1, 2, 3, 4, 5])
        self.assertEqual([one.name for one in connect.OperationKind], ["UNSPECIFIED", "READ", "WRITE"])

    def test_connectors(self):
        one = connect.Connector("a")
        self.assertEqual(one, connect.Connector("a"))
        self.assertNotEqual(one, connect.Connector())
        self.assertEqual((one.name, bool(one.hostname)), ("a", True))
        self.assertIn(one.is_cuda_available(), (False, True))
        asyncio.run(one.initialize())

    def test_a_forked_child_has_a_worker_of_its_own(self):
        offer, registered = connect.Connector().create_readable(connect.Descriptor(b"abc")), connect.Descriptor(b"def")
        registered.register_with_connector(connect.Connector())
        child = os.fork()
        if child == 0:
            try:
                data = bytearray(3)
                mine = connect.Connector().create_readable(registered)
                asyncio.run(connect.Connector().begin_read(mine.metadata(), connect.Descriptor(data)).
                            wait_for_completion())
                del mine
                try:
                    asyncio.run(offer.wait_for_completion())
                except RuntimeError as error:
                    os._exit(0 if data == b"def" and "fork" in str(error) else 2)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(offer.status, connect.OperationStatus.INITIALIZED)


if __name__ == "__main__":
    support.main()
