# SPDX-License-Identifier: Apache-2.0
"""ferry.vllm with a KV cache on GPUs: on tests/cuda, which stands in for the driver, and on what stands in for vLLM."""
import ctypes
import sys
import types
import unittest
import unittest.mock

import support
import test_gpu
import vllm_standin as vllm

vllm.install()
from ferry.vllm.connector import FerryConnector  # noqa: E402

PROMPT = [(7 * i) % 251 for i in range(40)]


class GpuEngine(vllm.Engine):
    """Its kernels run when the program waits for their stream: an offer that does not wait has none of their results."""

    def storage(self, size):
        assert size <= test_gpu.SIZE
        self.gpu = test_gpu.Gpu(0, 0)
        self.kernels = []
        return vllm.Storage(self.gpu.pointer.value, size), vllm.Device("cuda", 0)

    def compute(self, id, prompt, first=0):
        self.kernels.append((id, prompt, first))

    def synchronize(self):
        while self.kernels:
            super().compute(*self.kernels.pop(0))

    def poke(self, address, data):
        here = ctypes.create_string_buffer(data, len(data))
        self.gpu.enter("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), here, ctypes.c_size_t(len(data)), self.gpu.stream)
        self.gpu.enter("cuStreamSynchronize", self.gpu.stream)

    def peek(self, address):
        here = ctypes.create_string_buffer(vllm.CONTENT)
        self.gpu.enter("cuMemcpyDtoHAsync_v2", here, ctypes.c_uint64(address), ctypes.c_size_t(vllm.CONTENT),
                       self.gpu.stream)
        self.gpu.enter("cuStreamSynchronize", self.gpu.stream)
        return here.raw

    def close(self):
        super().close()
        self.gpu.free()


class TestGpu(unittest.TestCase):
    def test_blocks_are_offered_once_the_step_has_written_them(self):
        support.local_directory()
        with self.assertLogs("vllm.ferry", "WARNING") as logs:
            prefill, decode = (GpuEngine(FerryConnector, blocks=8) for _ in range(2))
        self.addCleanup(prefill.close)
        self.addCleanup(decode.close)
        self.assertIn("has not been tried on a GPU", logs.output[0])
        torch = types.ModuleType("torch")
        torch.cuda = types.SimpleNamespace(current_stream=lambda: prefill)
        with unittest.mock.patch.dict(sys.modules, torch=torch):
            params = prefill.prefill("p", PROMPT)
        self.assertEqual(prefill.kernels, [])
        self.assertTrue(decode.decode("d", PROMPT, params))
        self.assertTrue(decode.holds("d", PROMPT))
        self.assertTrue(prefill.until("sent", "p"))

    def test_a_device_of_another_kind_is_refused(self):
        class Engine(vllm.Engine):
            def storage(self, size):
                return super().storage(size)[0], vllm.Device("xpu", 0)
        with self.assertRaisesRegex(NotImplementedError, "KV caches of CPUs and of CUDA devices"):
            Engine(FerryConnector)


if __name__ == "__main__":
    unittest.main()
