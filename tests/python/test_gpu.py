# SPDX-License-Identifier: Apache-2.0
"""ferry.nixl_connect with memory on GPUs: on tests/cuda, which stands in for the driver."""
import ctypes
import os
import unittest
from unittest import mock

import support
from ferry import nixl_connect as connect

SIZE = 300_000


class Gpu:
    """The program's own use of a device, by the driver. As an array, what CuPy and PyTorch offer."""

    driver = None

    def __init__(self, number, fill):
        if not Gpu.driver:
            Gpu.driver = ctypes.CDLL("libcuda.so.1")
            self.call("cuInit", 0)
        self.context, self.stream, self.pointer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), number)
        self.enter("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.enter("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(SIZE))
        here = ctypes.create_string_buffer(bytes([fill]) * SIZE, SIZE)
        self.enter("cuMemcpyHtoDAsync_v2", self.pointer, here, ctypes.c_size_t(SIZE), self.stream)
        self.enter("cuStreamSynchronize", self.stream)
        self.__cuda_array_interface__ = {"shape": (SIZE,), "typestr": "|u1", "data": (self.pointer.value, False),
                                         "strides": None, "version": 3}

    def call(self, name, *arguments):
        result = getattr(Gpu.driver, name)(*arguments)
        if result:
            raise RuntimeError(f"{name}: CUDA error {result}")

    def enter(self, name, *arguments):
        self.call("cuCtxPushCurrent_v2", self.context)
        try:
            self.call(name, *arguments)
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def bytes(self):
        here = ctypes.create_string_buffer(SIZE)
        self.enter("cuMemcpyDtoHAsync_v2", here, self.pointer, ctypes.c_size_t(SIZE), self.stream)
        self.enter("cuStreamSynchronize", self.stream)
        return here.raw

    def free(self):
        self.enter("cuMemFree_v2", self.pointer)


class TestGpus(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.first, self.second = Gpu(0, 3), Gpu(1, 4)
        self.connector = connect.Connector()
        self.peer = support.Peer()

    def tearDown(self):
        self.assertEqual(self.peer.close(), 0)
        self.first.free()
        self.second.free()

    async def test_memory_moves_between_gpus(self):
        source = connect.Descriptor((self.first.pointer.value, SIZE, "cuda:0", self.first))
        target = connect.Descriptor((self.second.pointer.value, SIZE, connect.Device("cuda:1"), self.second))
        with self.connector.create_readable(source) as offer:
            metadata = offer.metadata()
            self.assertEqual([one.device for one in metadata.descriptors], ["cuda:0"])
            async with self.connector.begin_read(metadata, target) as read:
                await read.wait_for_completion()
            await offer.wait_for_completion()
        self.assertEqual(self.second.bytes(), bytes([3]) * SIZE)

    async def test_an_array_on_a_gpu_goes_to_a_peer_and_comes_from_it(self):
        metadata = connect.RdmaMetadata(**self.peer.call(do="writable", size=SIZE)["metadata"])
        write = await self.connector.begin_write(connect.Descriptor(self.first), metadata)
        await write.wait_for_completion()
        told = await self.peer.receive_soon()
        self.assertEqual((told["status"], told["first"], told["same"]), ("COMPLETE", 3, True))
        metadata = connect.RdmaMetadata(**self.peer.call(do="readable", size=SIZE, fill=8)["metadata"])
        async with self.connector.begin_read(metadata, connect.Descriptor((self.second, "cuda:1"))) as read:
            await read.wait_for_completion()
        self.assertEqual(self.second.bytes(), bytes([8]) * SIZE)
        await self.peer.receive_soon()

    def test_memory_of_another_gpu_or_of_none_is_refused(self):
        for number, device, code in ((self.first.pointer.value, "cuda:1", "invalid-parameter"),
                                     (4096, "cuda:0", "invalid-parameter"),
                                     (self.first.pointer.value, "cuda:7", "unknown-device")):
            with support.fails(code):
                self.connector.create_readable(connect.Descriptor((number, 16, device, None)))


class TestFreedMemory(unittest.TestCase):
    def test_a_region_whose_memory_is_freed_ends_its_transfers(self):
        network = {"FERRY_LOCAL": "off", "FERRY_DATA_LISTEN": "127.0.0.1:0"}
        for environment in ({}, network):
            for kinds in (("readable", "read"), ("writable", "write")):
                for frees in (0, 1):
                    with self.subTest(kinds, frees=frees, **environment):
                        with mock.patch.dict(os.environ, environment):
                            peers = support.Peer(), support.Peer()
                        self.move_twice(*peers, *kinds, frees)
                        self.assertEqual([peer.close() for peer in peers], [0, 0])

    def move_twice(self, passive, active, offer, move, frees):
        """The second time one of the two has freed its memory."""
        fills = (7, 0) if offer == "readable" else (0, 7)
        first, second = (passive.call(do=offer, gpu=0, fill=fills[0])["metadata"] for _ in range(2))
        for told in (active.call(do=move, gpu=1, fill=fills[1], metadata=first), passive.receive()):
            self.assertEqual((told["status"], told["first"], told["same"]), ("COMPLETE", 7, True))
        (passive, active)[frees].call(do="free")
        self.assertEqual(active.call(do=move, gpu=1, metadata=second).get("code"), "transfer-failed")
        if offer == "writable" and frees:  # no byte was read to be sent, so the offer stands
            self.assertEqual(active.call(do="write", size=SIZE, fill=9, metadata=second)["status"], "COMPLETE")
            self.assertEqual(passive.receive()["first"], 9)
        else:
            self.assertEqual(passive.receive().get("code"), "transfer-failed")


if __name__ == "__main__":
    unittest.main()
