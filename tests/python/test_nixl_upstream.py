# SPDX-License-Identifier: Apache-2.0
"""What programs of dynamo.nixl_connect do beside its documented API."""
import array
import unittest
import weakref

import support
from ferry import nixl_connect as connect


class TestPrograms(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.connector = connect.Connector()

    async def test_a_registered_descriptor_is_used_for_less(self):
        connection = await self.connector._create_connection()
        data = bytearray(100)
        descriptor = connect.Descriptor(data)
        descriptor.register_with_connector(connection=connection)
        self.assertIs(descriptor._data_ref, data)
        for sent in (b"abc", b"de", b"fg", b"hijkl"):
            descriptor._data_size = len(sent)
            data[:] = bytes(100)
            offer = self.connector.create_readable(connect.Descriptor(sent))
            await self.connector.begin_read(offer.metadata(), descriptor).wait_for_completion()
            self.assertEqual(data, sent.ljust(100, b"\0"))
        descriptor._data_size = 101
        with self.assertRaises(ValueError):
            self.connector.create_readable(descriptor)
        region = weakref.ref(descriptor._region)
        descriptor.deregister_with_connector(connection=connection)
        self.assertIsNone(region())
        self.assertIs(offer.connection, connection)
        self.assertEqual(offer.operation_kind, connect.OperationKind.READ)
        self.assertIsInstance(offer, connect.PassiveOperation)

    async def test_addresses_without_device_and_reference(self):
        numbers = array.array("d", [1.5, -2.5])
        address, length = numbers.buffer_info()
        for data in ((address, 8 * length), (address, 8 * length, "cpu")):
            descriptor = connect.Descriptor(data)
            self.assertEqual((descriptor.size, str(descriptor.device), descriptor._data_ref), (16, "cpu", None))
        with self.assertRaises(ValueError):
            connect.Descriptor(None)


if __name__ == "__main__":
    support.main()
