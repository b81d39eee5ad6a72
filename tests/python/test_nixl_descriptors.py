# SPDX-License-Identifier: Apache-2.0
"""Descriptors of ferry.nixl_connect: whose memory they take, for how long, and what is refused."""
import array
import copy
import gc
import mmap
import os
import pickle
import tempfile
import unittest
import weakref

import support
from ferry import nixl_connect as connect
from ferry._memory import buffer_memory


class TestRefusals(unittest.TestCase):
    def setUp(self):
        self.connector = connect.Connector()
        self.offer = self.connector.create_readable(connect.Descriptor(b"abc"))
        self.target = connect.Descriptor(bytearray(3))

    def test_wrong_pairing(self):
        with self.assertRaisesRegex(RuntimeError, "READ"):
            self.connector.begin_write(self.offer.metadata(), self.target)

    def test_sizes_and_counts_that_differ(self):
        metadata = self.offer.metadata()
        with self.assertRaisesRegex(ValueError, "4 bytes here, 3 of the peer"):
            self.connector.begin_read(metadata, connect.Descriptor(bytearray(4)))
        with self.assertRaisesRegex(ValueError, "2 descriptors here, 1 of the peer"):
            self.connector.begin_read(metadata, [self.target, self.target])
        with self.assertRaises(ValueError):
            self.connector.begin_read(metadata, [])

    def test_wrong_types(self):
        metadata = self.offer.metadata()
        for arguments in ((metadata, metadata), (self.target, self.target), (metadata, bytearray(3)), (metadata, None),
                          (metadata, [self.target, 1])):
            with self.assertRaises(TypeError):
                self.connector.begin_read(*arguments)
        with self.assertRaises(TypeError):
            self.connector.create_readable(b"abc")
        with self.assertRaises(TypeError):
            connect.Connector(7)
        with self.assertRaises(TypeError):
            connect.Descriptor(7)
        with self.assertRaises(TypeError):
            connect.Device(7)

    def test_metadata_of_another_system_or_of_nonsense(self):
        for blob in ("b64:AAAA", "00ff", "nonsense"):
            metadata = connect.RdmaMetadata(descriptors=[{"device": "cpu", "ptr": 1, "size": 3}], nixl_metadata=blob,
                                            notification_key="k" * 43, operation_kind=1)
            with support.fails("invalid-metadata"):
                self.connector.begin_read(metadata, self.target)

    def test_read_only_memory_receives_nothing(self):
        with self.assertRaisesRegex(ValueError, "read-only"):
            self.connector.create_writable(connect.Descriptor(b"abc"))
        with self.assertRaisesRegex(ValueError, "read-only"):
            self.connector.begin_read(self.offer.metadata(), connect.Descriptor(memoryview(b"abc")))

    def test_read_only_memory_behind_something_writable(self):
        with tempfile.TemporaryFile() as file:
            file.truncate(3)
            mapping = mmap.mmap(file.fileno(), 3, access=mmap.ACCESS_READ)
            descriptor = connect.Descriptor((buffer_memory(mapping).address, 3, "cpu", mapping))
            for _ in "once", "registered":
                with self.assertRaisesRegex(ValueError, "read-only"):
                    self.connector.create_writable(descriptor)
                with self.assertRaisesRegex(ValueError, "read-only"):
                    self.connector.begin_read(self.offer.metadata(), descriptor)
                descriptor.register_with_connector(self.connector)

    def test_memory_of_a_gpu_that_is_not_there(self):
        for device in ("cuda:0", "xpu:0"):
            with support.fails("unknown-device"):
                self.connector.create_readable(connect.Descriptor((4096, 16, device, None)))

    def test_what_is_not_contiguous(self):
        with self.assertRaisesRegex(ValueError, "contiguous"):
            connect.Descriptor(memoryview(b"abcdef")[::2])
        with self.assertRaises(ValueError):
            connect.Descriptor(b"")


class TestDescriptors(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.connector = connect.Connector()

    async def test_a_mapped_file_that_was_truncated_fails_the_operation_alone(self):
        size = 100000
        for registered in False, True:
            for receives in False, True:
                with tempfile.TemporaryFile() as file:
                    file.truncate(size)
                    file_of = connect.Descriptor(mmap.mmap(file.fileno(), size))
                    other = connect.Descriptor(bytearray(size))
                    if registered:
                        file_of.register_with_connector(self.connector)
                    await self.moved(*((other, file_of) if receives else (file_of, other)))
                    file.truncate(1)
                    with support.fails("transfer-failed", connect.OperationFailed):
                        await self.moved(*((other, file_of) if receives else (file_of, other)))
                    await self.moved(other, connect.Descriptor(bytearray(size)))

    async def moved(self, source, target):
        offer = self.connector.create_readable(source)
        await self.connector.begin_read(offer.metadata(), target).wait_for_completion()
        await offer.wait_for_completion()

    async def test_registered_once_for_many(self):
        source, data = connect.Descriptor(b"abc"), bytearray(3)
        target = connect.Descriptor(data)
        self.assertFalse(source.is_registered)
        for one in (source, target):
            one.register_with_connector(self.connector)
            one.register_with_connector(self.connector)
            self.assertTrue(one.is_registered)
        for _ in range(3):
            data[:] = b"   "
            await self.moved(source, target)
            self.assertEqual(data, b"abc")
        source.deregister_with_connector(self.connector)
        self.assertFalse(source.is_registered)
        with self.assertRaises(RuntimeError):
            source.deregister_with_connector(self.connector)
        with self.assertRaises(RuntimeError):
            target.register_with_connector(connect.Connector())
        for call in (source.register_with_connector, source.deregister_with_connector):
            with self.assertRaises(TypeError):
                call("connector")

    async def test_memory_that_is_dropped_while_offered_stays(self):
        offer = self.connector.create_readable(connect.Descriptor(bytearray(b"z" * 100_000)))
        gc.collect()
        filler = [bytearray(100_000) for _ in range(50)]
        data = bytearray(100_000)
        await self.connector.begin_read(offer.metadata(), connect.Descriptor(data)).wait_for_completion()
        self.assertEqual(data, b"z" * 100_000)
        self.assertEqual(len(filler), 50)

    async def test_no_copy_describes_memory_that_the_original_keeps(self):
        for data in (bytearray(3), (1 << 20, 3, "cpu", None)):
            for copier in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "belongs to this process"):
                    copier(connect.Descriptor(data))

    async def test_a_buffer_that_is_offered_is_not_resized(self):
        data = bytearray(100)
        offer = self.connector.create_readable(connect.Descriptor(data))
        with self.assertRaises(BufferError):
            data.extend(b"more")
        with offer:
            pass
        del offer
        gc.collect()
        data.extend(b"more")

    async def test_allocated_memory_and_parts_of_it(self):
        source, target = self.connector.allocate(10_000), self.connector.allocate(10_000)
        source[:] = os.urandom(10_000)
        await self.moved(connect.Descriptor(source[100:200]), connect.Descriptor(target[5:105]))
        self.assertEqual(target[5:105], source[100:200])
        self.assertEqual(bytes(target[105:]), bytes(10_000 - 105))

    async def test_addresses_and_arrays_of_the_standard_library(self):
        numbers, target = array.array("d", [1.5, -2.5]), array.array("d", [0, 0])
        address, length = numbers.buffer_info()
        await self.moved(connect.Descriptor((address, 8 * length, "cpu", numbers)), connect.Descriptor(target))
        self.assertEqual(target, numbers)
        for data in ((address, 8 * length), (address, 8 * length, "cpu")):
            descriptor = connect.Descriptor(data)
            self.assertEqual((descriptor.size, str(descriptor.device), descriptor._data_ref), (16, "cpu", None))
        with self.assertRaises(ValueError):
            connect.Descriptor(None)

    async def test_a_registered_descriptor_is_used_for_less(self):
        """As programs do beside the documented interface."""
        connection = await self.connector._create_connection()
        data = bytearray(100)
        descriptor = connect.Descriptor(data)
        descriptor.register_with_connector(connection=connection)
        self.assertIs(descriptor._data_ref, data)
        for sent in (b"abc", b"de", b"fg", b"hijkl"):
            descriptor._data_size = len(sent)
            data[:] = bytes(100)
            await self.moved(connect.Descriptor(sent), descriptor)
            self.assertEqual(data, sent.ljust(100, b"\0"))
        descriptor._data_size = 101
        with self.assertRaises(ValueError):
            self.connector.create_readable(descriptor)
        region = weakref.ref(descriptor._region)
        descriptor.deregister_with_connector(connection=connection)
        self.assertIsNone(region())
        offer = self.connector.create_readable(connect.Descriptor(b"abc"))
        self.assertIs(offer.connection, connection)
        self.assertEqual(offer.operation_kind, connect.OperationKind.READ)
        self.assertIsInstance(offer, connect.PassiveOperation)

    async def test_numpy(self):
        numpy = support.needs("numpy")
        source, target = numpy.arange(1000.0).reshape(10, 100), numpy.zeros((10, 100))
        await self.moved(connect.Descriptor((source, "cpu")), connect.Descriptor((target, connect.Device("cpu"))))
        self.assertTrue((source == target).all())
        shared = numpy.frombuffer(self.connector.allocate(8000), dtype="f8").reshape(10, 100)
        await self.moved(connect.Descriptor((source, "cpu")), connect.Descriptor((shared, "cpu")))
        self.assertTrue((source == shared).all())
        words, target = numpy.array(["naïve", "Σ"]), numpy.zeros(2, "U5")
        await self.moved(connect.Descriptor((words, "cpu")), connect.Descriptor((target, "cpu")))
        self.assertTrue((words == target).all())

    async def test_torch(self):
        torch = support.needs("torch")
        source, target = torch.arange(1000.0).reshape(10, 100), torch.zeros(10, 100)
        await self.moved(connect.Descriptor(source), connect.Descriptor(target))
        self.assertTrue(torch.equal(source, target))
        shared = torch.frombuffer(self.connector.allocate(4000), dtype=torch.float32).reshape(10, 100)
        await self.moved(connect.Descriptor(source), connect.Descriptor(shared))
        self.assertTrue(torch.equal(source, shared))

    async def test_a_tensor_whose_memory_is_replaced(self):
        torch = support.needs("torch")
        source, target = torch.full((100_000,), 7.0), torch.zeros(100_000)
        described = connect.Descriptor(source)
        source.data = torch.zeros(1)
        gc.collect()
        await self.moved(described, connect.Descriptor(target))
        self.assertTrue((target == 7).all())
        described = connect.Descriptor(target)
        described.register_with_connector(self.connector)
        target.untyped_storage().resize_(10_000_000)
        with self.assertRaisesRegex(ValueError, "resized"):
            self.connector.create_readable(described)


if __name__ == "__main__":
    support.main()
