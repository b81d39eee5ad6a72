# SPDX-License-Identifier: Apache-2.0
"""Objects whose bytes are not their values: a descriptor refuses each, and says what to pass instead.

Tensors by stand-ins, and by torch where it is installed; arrays by the interface, and by numpy where it is installed.
"""
import ctypes
import sys
import types
import unittest
from unittest import mock

import ferry
import support
from ferry import nixl_connect as connect


class Tensor:
    """A tensor of eight bytes as torch has them, of which a test says what is special."""

    __torch_dispatch__ = None

    def __init__(self, **special):
        self.memory = (ctypes.c_char * 8)()
        self.layout, self.device, self.storage_bytes = "torch.strided", types.SimpleNamespace(type="cpu", index=None), 8
        self.is_quantized = self.is_nested = self.is_meta = False
        vars(self).update(special)

    def detach(self):
        return self

    def untyped_storage(self):
        return types.SimpleNamespace(nbytes=lambda: self.storage_bytes)

    is_conj = is_neg = staticmethod(lambda: False)
    is_contiguous = staticmethod(lambda: True)
    numel, element_size, storage_offset = (staticmethod(lambda number=number: number) for number in (2, 4, 0))

    def data_ptr(self):
        return ctypes.addressof(self.memory)


def yes():
    return True


def no():
    return False


def raises(*_):
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


class Local(Tensor):
    __torch_dispatch__ = to_local = raises


class Flat(Tensor):
    __torch_dispatch__ = raises

    @staticmethod
    def __tensor_flatten__():
        return ["a", "b"], None


class Opaque(Tensor):
    __torch_dispatch__ = raises


class FakeTensor(Tensor):
    __torch_dispatch__ = raises


class Plain(Tensor):
    """As Parameter: another type, and nothing else."""


class Array:
    """The array interface alone."""

    def __init__(self, **special):
        self.memory = (ctypes.c_char * 8)()
        self.__array_interface__ = {"version": 3, "shape": (2,), "typestr": "|V4" if "descr" in special else "<i4",
                                    "data": (ctypes.addressof(self.memory), False), **special}


class TestRefusals(unittest.TestCase):
    def refused(self, rows, error=(ValueError, TypeError)):
        for name, make, told in rows:
            with self.subTest(name):
                data = make()
                with self.assertRaisesRegex(error, told):
                    connect.Descriptor(data)

    def test_tensors(self):
        self.assertEqual(connect.Descriptor(Tensor()).size, 8)
        self.refused((
            ("conjugate", lambda: Tensor(is_conj=yes), r"pass tensor\.resolve_conj\(\)"),
            ("negation", lambda: Tensor(is_neg=yes), r"pass tensor\.resolve_neg\(\)"),
            ("quantized", lambda: Tensor(is_quantized=True), r"tensor\.int_repr\(\)"),
            ("nested", lambda: Tensor(is_nested=True, layout="torch.jagged"), r"tensor\.values\(\)"),
            ("sparse", lambda: Tensor(layout="torch.sparse_csr", is_contiguous=raises), r"tensor\.to_dense\(\)"),
            ("strided", lambda: Tensor(is_contiguous=no), r"tensor\.contiguous\(\)"),
            ("meta", lambda: Tensor(is_meta=True), "meta"),
            ("elsewhere", lambda: Tensor(device=types.SimpleNamespace(type="xpu")), r"xpu: pass tensor\.cpu\(\)"),
            ("freed", lambda: Tensor(storage_bytes=0), "freed"),
            ("short", lambda: Tensor(storage_bytes=7), "freed or made smaller"),
            ("beyond", lambda: Tensor(storage_offset=lambda: 1), "freed or made smaller"),
            ("batched", lambda: Tensor(data_ptr=raises), r"torch\.func"),
            ("without memory", lambda: Tensor(data_ptr=lambda: 0), "no memory of its own"),
            ("empty", lambda: Tensor(numel=lambda: 0), "no elements")))
        with self.assertRaisesRegex(ValueError, r"to receive, .*tensor\.copy_"):
            connect.Descriptor(Tensor(is_conj=yes))

    def test_subclasses_that_make_their_values_of_others(self):
        with mock.patch.dict(sys.modules, torch=types.SimpleNamespace(Tensor=Tensor)):
            self.assertEqual(connect.Descriptor(Plain()).size, 8)
            self.refused((("of parts", Local, r"pass tensor\.to_local\(\)"),
                          ("flat", Flat, r"pass tensor\.a and tensor\.b"),
                          ("other", Opaque, "Opaque.*plain tensors"),
                          ("fake", FakeTensor, "outside of FakeTensorMode")))

    def test_a_tensor_with_its_device(self):
        self.assertEqual(str(connect.Descriptor((Tensor(), "cpu")).device), "cpu")
        self.refused((("conjugate", lambda: (Tensor(is_conj=yes), "cpu"), "resolve_conj"),
                      ("elsewhere", lambda: (Tensor(), "cuda:1"), "is on cpu, not on cuda:1")))

    def test_a_storage_that_is_freed_after_the_descriptor_was_made(self):
        for registered in (False, True):
            tensor, connector = Tensor(), connect.Connector()
            descriptor = connect.Descriptor(tensor)
            if registered:
                descriptor.register_with_connector(connector)
                connector.create_readable(descriptor)
            tensor.storage_bytes = 0
            for make in (connector.create_readable, connector.create_writable):
                with self.assertRaisesRegex(ValueError, "freed"):
                    make(descriptor)

    def test_arrays(self):
        foreign = ">" if sys.byteorder == "little" else "<"
        self.assertEqual(connect.Descriptor(Array()).size, 8)
        self.assertEqual(connect.Descriptor(Array(typestr="<M8[25s]", shape=(1,))).size, 8)
        self.assertEqual(connect.Descriptor(Array(descr=[("a", "<i2"), ("", "|V2")])).size, 8)
        self.refused((
            ("references", lambda: Array(typestr="|O8"), "Python objects"),
            ("bits", lambda: Array(typestr="|t4"), "not known"),
            ("mask", lambda: Array(mask=Array()), "mask"),
            ("order", lambda: Array(typestr=foreign + "i4"), "newbyteorder"),
            ("order of a field", lambda: Array(descr=[("a", "|u2"), ("b", [("c", foreign + "i2")])]), "newbyteorder"),
            ("stride of 0", lambda: Array(strides=(0,)), "contiguous"),
            ("backwards", lambda: Array(strides=(-4,)), "contiguous"),
            ("no address", lambda: Array(data=None), "no address"),
            ("empty", lambda: Array(shape=(2, 0)), "no elements")))

    def test_buffers(self):
        class Fields(ctypes.Structure):
            _fields_ = [("Pointer", ctypes.c_int), ("z", ctypes.c_double)]

        class Pointers(ctypes.Structure):
            _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_char_p)]

        class Foreign(ctypes.BigEndianStructure if sys.byteorder == "little" else ctypes.LittleEndianStructure):
            _fields_ = [("a", ctypes.c_int)]

        self.assertEqual(connect.Descriptor(Fields()).size, ctypes.sizeof(Fields))
        rows = [(kind.__name__, lambda kind=kind: (kind * 2)(), "references or pointers")
                for kind in (ctypes.c_char_p, ctypes.c_wchar_p, ctypes.c_void_p, ctypes.py_object,
                             ctypes.POINTER(ctypes.c_int), ctypes.CFUNCTYPE(None), Pointers)]
        rows.append(("order", Foreign, "newbyteorder"))
        self.refused(rows)
        worker = ferry.Worker()
        self.addCleanup(worker.close)
        for name, make, told in rows:
            with self.subTest(name), self.assertRaisesRegex((ValueError, TypeError), told):
                worker.create("readable", [make()])

    def test_numpy(self):
        numpy = support.needs("numpy")
        zeros = numpy.zeros
        self.assertEqual([connect.Descriptor(one).size for one in (zeros(2, [("a", "i4"), ("b", "f8")]), numpy.array(3.0))], [24, 8])
        for good in ("c16", "?", "e", "M8[25s]", "U3", "V5"):
            self.assertEqual(connect.Descriptor(zeros(2, good)).size, 2 * numpy.dtype(good).itemsize)
        foreign = numpy.dtype("i4").newbyteorder()
        rows = [("objects", lambda: numpy.array([None]), "Python objects"),
                ("a field of objects", lambda: zeros(2, [("a", "O")]), "Python objects"),
                ("mask", lambda: numpy.ma.array([1, 2], mask=[0, 1]), r"array\.filled\(\)"),
                ("order", lambda: zeros(2, foreign), "newbyteorder"),
                ("order of a field", lambda: zeros(2, [("a", [("b", foreign)], (2,))]), "newbyteorder"),
                ("order of texts", lambda: zeros(2, numpy.dtype("U2").newbyteorder()), "newbyteorder"),
                ("stride of 0", lambda: numpy.broadcast_to(zeros(1), (4,)), "contiguous"),
                ("backwards", lambda: numpy.arange(4)[::-1], "contiguous"),
                ("order of dimensions", lambda: zeros((2, 3), order="F"), "contiguous"),
                ("empty", lambda: zeros((0, 3)), "no elements"),
                ("scalar", lambda: numpy.float32(1), "scalar")]
        if hasattr(numpy, "dtypes") and hasattr(numpy.dtypes, "StringDType"):
            rows.append(("texts elsewhere", lambda: numpy.array(["a"], dtype=numpy.dtypes.StringDType()), "astype"))
        self.refused(rows)
        self.refused([(name, lambda make=make: (make(), "cpu"), told) for name, make, told in rows])
        with self.assertRaisesRegex(ValueError, "read-only"):
            connect.Connector().create_writable(connect.Descriptor(numpy.frombuffer(b"abcd", "i4")))

    def test_content_over_http(self):
        numpy = support.needs("numpy")
        daemon = support.Daemon()
        self.addCleanup(daemon.close)
        with ferry.Client(daemon.url) as client:
            region = client.region(16)
            region.write(numpy.arange(4, dtype="i4"))
            self.assertEqual(region.read(4, 4), (1).to_bytes(4, sys.byteorder))
            for data, told in ((numpy.ma.array([1, 2], mask=[0, 1]), "mask"), (numpy.array([None]), "references"),
                               (numpy.zeros(2, numpy.dtype("i4").newbyteorder()), "newbyteorder")):
                with self.assertRaisesRegex((ValueError, TypeError), told):
                    region.write(data)

    def test_torch(self):
        torch = support.needs("torch")
        from torch._subclasses.fake_tensor import FakeTensorMode
        self.assertEqual(connect.Descriptor(torch.nn.Parameter(torch.ones(4))).size, 16)
        self.assertEqual(connect.Descriptor(torch.ones(4).as_subclass(type("Mine", (torch.Tensor,), {}))).size, 16)
        self.assertEqual(connect.Descriptor(torch.zeros(8)[2:6]).size, 16)
        complex_ones = torch.ones(4, dtype=torch.complex64)

        def freed():
            tensor = torch.ones(4)
            tensor.untyped_storage().resize_(0)
            return tensor

        def fake():
            with FakeTensorMode():
                return torch.ones(4)

        parts = [torch.ones(2), torch.ones(3)]
        self.refused((
            ("conjugate", complex_ones.conj, r"resolve_conj\(\)"),
            ("negation", lambda: torch._neg_view(torch.ones(4)), r"resolve_neg\(\)"),
            ("imaginary part", lambda: complex_ones.conj().imag, r"resolve_neg\(\)"),
            ("sparse", lambda: torch.eye(3).to_sparse(), r"to_dense\(\)"),
            ("rows", lambda: torch.eye(3).to_sparse_csr(), r"to_dense\(\)"),
            ("nested", lambda: torch.nested.nested_tensor(parts), r"values\(\)"),
            ("jagged", lambda: torch.nested.nested_tensor(parts, layout=torch.jagged), r"values\(\)"),
            ("quantized", lambda: torch.quantize_per_tensor(torch.ones(4), .1, 0, torch.qint8), r"int_repr\(\)"),
            ("expanded", lambda: torch.zeros(1).expand(5), r"contiguous\(\)"),
            ("overlapping", lambda: torch.zeros(10).as_strided((3, 3), (1, 1)), r"contiguous\(\)"),
            ("channels last", lambda: torch.ones(1, 2, 2, 2).to(memory_format=torch.channels_last), r"contiguous\(\)"),
            ("meta", lambda: torch.empty(4, device="meta"), "meta"),
            ("fake", fake, "FakeTensorMode"),
            ("freed", freed, "freed"),
            ("zeros without memory", lambda: torch._efficientzerotensor(4), r"clone\(\)"),
            ("empty", lambda: torch.ones(0), "no elements"),
            ("lazy", torch.nn.UninitializedParameter, "uninitialized")))
        if torch.backends.mkldnn.is_available():
            self.refused((("mkldnn", lambda: torch.eye(3).to_mkldnn(), r"to_dense\(\)"),))
        for transform in (torch.func.vmap, torch.func.grad, torch.func.functionalize):
            with self.subTest(transform.__name__):
                seen = []
                transform(lambda x, seen=seen: (seen.append(self.told(x)), x.sum())[1])(torch.ones(2))
                self.assertRegex(seen[0], r"torch\.func")

    @staticmethod
    def told(data):
        try:
            connect.Descriptor(data)
        except ValueError as error:
            return str(error)
        return "taken"

    def test_distributed_tensors(self):
        torch = support.needs("torch")
        if not torch.distributed.is_available():
            raise unittest.SkipTest("this torch has no torch.distributed")
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        tensor = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (1,)), [Shard(0)])
        self.refused((("DTensor", lambda: tensor, r"pass tensor\.to_local\(\)"),))
        self.assertEqual(connect.Descriptor(tensor.to_local()).size, 16)


if __name__ == "__main__":
    support.main()
