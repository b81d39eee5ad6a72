# SPDX-License-Identifier: Apache-2.0
"""Memory of buffers, arrays and tensors: where it is, and whether its bytes are its values. For this package alone.

A peer receives bytes. An object whose bytes are not its values (a lazy conjugate, references, a mask beside the data)
would arrive as another one without any error. Such an object is refused, with what to pass instead.
"""
from __future__ import annotations

import ctypes
import functools
import re
import sys
from typing import Any, NamedTuple

_FOREIGN = ">" if sys.byteorder == "little" else "<"
_FOREIGN_MARKS = _FOREIGN + ("!" if sys.byteorder == "little" else "")  # of a buffer's format
_ORDER = "has the byte order of another machine: pass array.astype(array.dtype.newbyteorder('='))"


class Memory(NamedTuple):
    """keep holds the memory where it is."""

    address: int
    size: int
    writable: bool
    keep: Any


# ---- buffers ----

@functools.lru_cache(maxsize=1024)
def _format_fault(text: str) -> type[Exception] | None:
    """text is the format of a buffer, as the modules struct, ctypes and numpy write it."""
    plain = re.sub(r":[^:]*:", "", text)  # names of fields
    if re.search(r"[OPXz&]|Z(?![fdg])", plain):  # Zf, Zd and Zg are complex numbers
        return TypeError
    return ValueError if any(mark in plain for mark in _FOREIGN_MARKS) else None


def _check_format(data: Any, text: str) -> None:
    fault = _format_fault(text)
    if fault:
        why = _ORDER if fault is ValueError else \
            "has references or pointers, which mean nothing to a peer: pass the bytes that they lead to"
        raise fault(f"a {type(data).__name__} of format {text!r} {why}")


def _check_mask(data: Any) -> None:
    if isinstance(data, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        raise ValueError("the mask of a masked array is beside its bytes: pass array.filled(), or array.data and "
                         "numpy.ma.getmaskarray(array)")


def buffer_view(data: Any) -> memoryview:
    """data as it lies in memory, if its bytes are its values."""
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"a {type(data).__name__} is no buffer: pass bytes, a memoryview or an array (a tensor goes to "
                        "nixl_connect.Descriptor)") from None
    _check_mask(data)
    _check_format(data, view.format)
    if not view.c_contiguous:
        raise ValueError("the memory is not contiguous: make a contiguous copy first")
    return view


def buffer_memory(data: Any) -> Memory:
    """Of a C-contiguous buffer that has bytes."""
    view = buffer_view(data)
    if view.nbytes == 0:
        raise ValueError("there are no bytes in it")
    if not view.readonly:
        array = (ctypes.c_char * view.nbytes).from_buffer(view)
        return Memory(ctypes.addressof(array), view.nbytes, True, (data, array))
    if isinstance(data, bytes):
        return Memory(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0, len(data), False, data)
    return Memory(_read_only_address(view), view.nbytes, False, (data, view))


class _PyBuffer(ctypes.Structure):
    """Py_buffer, of whose fields only the first two are read here."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("rest", ctypes.c_void_p * 16)]


def _read_only_address(view: memoryview) -> int:
    buffer = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), 0)
    address = buffer.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address or 0


# ---- arrays ----

def is_array(data: Any) -> bool:
    return hasattr(data, "__array_interface__") or hasattr(data, "__cuda_array_interface__")


def _has_foreign_order(described: Any) -> bool:
    """described is a type or a list of fields, as the array interface has them."""
    if isinstance(described, str):
        return described.startswith(_FOREIGN)
    return any(_has_foreign_order(field[1]) for field in described)


def _check_type(array: Any, interface: dict[str, Any]) -> None:
    kind = interface["typestr"][1]  # "<f8", "|u1", "<U5", "<M8[25s]"
    dtype = getattr(array, "dtype", None)
    if getattr(dtype, "kind", "") == "T":
        raise TypeError("the strings of the array are elsewhere, as their lengths vary: pass array.astype('U')")
    if kind == "O" or getattr(dtype, "hasobject", False):
        raise TypeError("the array has references to Python objects, which mean nothing to a peer: pass an array of "
                        "numbers, or pickle.dumps(array)")
    if kind not in "biufcmMSUV":
        raise TypeError(f"an array of type {interface['typestr']} is not known here: pass one of bytes, numbers or texts")
    if interface.get("mask") is not None:
        raise ValueError("the mask of the array is beside its bytes: pass its data and its mask as two arrays")
    if _has_foreign_order(interface["typestr"]) or _has_foreign_order(interface.get("descr") or ()):
        raise ValueError(f"the array {_ORDER}, or array.view('u1') for its bytes as they are")


def array_memory(array: Any) -> Memory:
    """Of an array with the interface of numpy or of CUDA."""
    interface = getattr(array, "__cuda_array_interface__", None) or getattr(array, "__array_interface__", None)
    if interface is None:
        raise TypeError("the first of two must be an array of numpy or cupy")
    if isinstance(array, getattr(sys.modules.get("numpy"), "generic", ())):
        raise TypeError("a scalar of numpy has no memory of its own: pass an array of no dimension")
    _check_mask(array)
    _check_type(array, interface)
    typestr = interface["typestr"]
    size = int(re.findall(r"\d+", typestr)[0]) * (4 if typestr[1] == "U" else 1)
    strides, expected = interface.get("strides"), size
    for length, stride in zip(reversed(interface["shape"]), reversed(strides or ())):
        if length > 1 and stride != expected:
            raise ValueError("the array is not contiguous: pass numpy.ascontiguousarray(array)")
        expected *= length
    for length in interface["shape"]:
        size *= length
    if not size:
        raise ValueError("the array has no elements")
    if not isinstance(interface.get("data"), tuple):
        raise TypeError("the interface of the array has no address: pass the buffer that it is made of")
    address, read_only = interface["data"]
    return Memory(address, size, not read_only, array)


# ---- tensors ----

# An attribute or method that is true of a tensor whose bytes are not its values, why not, and what to pass. Tensors of
# other frameworks may lack it.
_NOT_VALUES = (
    ("is_nested", "is nested, and has the sizes of its parts elsewhere", "tensor.values(), or each of tensor.unbind()"),
    ("is_quantized", "is quantized, and has its scale and zero point elsewhere",
     "tensor.int_repr(), or tensor.dequantize()"),
    ("is_meta", "is of the meta device and has no bytes", "one of another device"),
    ("is_conj", "is a lazy conjugate, with the bytes of the tensor it was made of", "tensor.resolve_conj()"),
    ("is_neg", "is a lazy negation, with the bytes of the tensor it was made of", "tensor.resolve_neg()"),
)


def is_tensor(data: Any) -> bool:
    return hasattr(data, "data_ptr") and hasattr(data, "is_contiguous")


def _unfit(why: str, instead: str) -> ValueError:
    return ValueError(f"the tensor {why}: pass {instead} (to receive, pass a plain contiguous tensor and then "
                      "tensor.copy_() from it)")


def _check_wrapper(tensor: Any) -> None:
    """A subclass with a __torch_dispatch__ of its own makes its values of other tensors, or of none."""
    base = getattr(sys.modules.get("torch"), "Tensor", None)
    kind = type(tensor)
    if base is None or not issubclass(kind, base) or kind.__torch_dispatch__ is base.__torch_dispatch__:
        return
    if hasattr(tensor, "to_local"):
        instead = "tensor.to_local()"  # DTensor
    elif kind.__name__ == "FakeTensor":
        instead = "one that was made outside of FakeTensorMode"
    elif hasattr(tensor, "__tensor_flatten__"):
        instead = " and ".join(f"tensor.{name}" for name in tensor.__tensor_flatten__()[0])
    else:
        instead = "the plain tensors that it is made of"
    raise _unfit(f"is a {kind.__name__}, whose values are not in memory of its own", instead)


def tensor_memory(tensor: Any) -> Memory:
    """Of a tensor of torch, or of what looks like one."""
    for name, why, instead in _NOT_VALUES:
        found = getattr(tensor, name, False)
        if found() if callable(found) else found:
            raise _unfit(why, instead)
    _check_wrapper(tensor)
    layout = str(getattr(tensor, "layout", "torch.strided"))
    if layout != "torch.strided":
        raise _unfit(f"has the layout {layout}", "tensor.to_dense(), or the tensors that it is made of")
    if not tensor.is_contiguous():
        raise _unfit("is not contiguous", "tensor.contiguous()")
    if tensor.device.type not in ("cpu", "cuda"):
        raise _unfit(f"is on the device {tensor.device.type}", "tensor.cpu()")
    size = tensor.numel() * tensor.element_size()
    if not size:
        raise ValueError("the tensor has no elements")
    kept = tensor.detach()  # its storage stays when the program gives the tensor another one
    try:
        address = tensor.data_ptr()
        check_storage(kept, size)
    except (RuntimeError, NotImplementedError):
        address = 0
    if not address:
        raise _unfit("has no memory of its own, as inside the transforms of torch.func", "tensor.clone() outside them")
    return Memory(address, size, True, kept)


def check_storage(tensor: Any, size: int) -> None:
    """The size bytes of the tensor are in its storage, which a program may make smaller."""
    storage = getattr(tensor, "untyped_storage", None)
    if storage is not None and tensor.storage_offset() * tensor.element_size() + size > storage().nbytes():
        raise ValueError("the storage of the tensor was freed or made smaller than its elements, as FSDP does: pass a "
                         "tensor whose storage is whole")
