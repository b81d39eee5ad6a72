# SPDX-License-Identifier: Apache-2.0
"""ferry.nixl_connect beside the real dynamo.nixl_connect: names, and programs that use more than its documented API."""
import array
import os
import subprocess
import sys
import unittest
import weakref

import support
from ferry import nixl_connect as connect


class TestPrograms(unittest.IsolatedAsyncioTestCase):
    """What programs of upstream do beside its documented API."""

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

    def test_embeddings_are_sent_and_received_by_its_classes(self):
        for module in ("torch", "dynamo.common.multimodal.embedding_transfer"):
            support.needs(module)
        command = [sys.executable, os.path.join(support.HERE, "upstream.py")]
        with subprocess.Popen([*command, "sender"], stdout=subprocess.PIPE, text=True) as sender, \
                subprocess.Popen([*command, "receiver"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True) as receiver:
            while request := sender.stdout.readline():
                receiver.stdin.write(request)
                receiver.stdin.flush()
                self.assertEqual(sender.stdout.readline(), receiver.stdout.readline())
        self.assertEqual((sender.returncode, receiver.returncode), (0, 0))

    def test_no_public_name_of_upstream_is_missing(self):
        """But what only its own parts use: Remote, the agent in a Connection, the device kind XPU, validators."""
        support.needs("torch")
        try:
            from dynamo import nixl_connect as upstream
        except ImportError as error:
            raise unittest.SkipTest(f"dynamo.nixl_connect is not installed ({error})") from None
        own = {"Remote", "DeviceKind.XPU", "DeviceKind.nixl_mem_type", "ActiveOperation.remote", "ReadOperation.remote",
               "WriteOperation.remote", "Connection.acquire_remote_ref", "Connection.release_remote_ref",
               "Connection.connector", "Connection.metadata"}
        missing = set()
        for name, value in vars(upstream).items():
            if name.startswith("_") or getattr(value, "__module__", "") != upstream.__name__:
                continue
            ours = getattr(connect, name, None)
            if ours is None:
                missing.add(name)
            elif isinstance(value, type):
                missing |= {f"{name}.{member}" for member in vars(value) if not hasattr(ours, member)
                            and not member.startswith(("_", "validate_"))}
        self.assertEqual(missing - own, set())


if __name__ == "__main__":
    support.main()
