# SPDX-License-Identifier: Apache-2.0
"""libferry-worker by ctypes: finds it and declares its functions. No function here is for users."""
from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

ID_SIZE = 24  # FERRY_WORKER_ID_SIZE
SONAME = "libferry-worker.so.0"

# name: (result, arguments)
_FUNCTIONS = {
    "error": (c_char_p, []),
    "options_new": (c_void_p, []),
    "options_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "options_environment": (c_int, [c_void_p]),
    "options_free": (c_void_p, [c_void_p]),
    "new": (c_int, [c_void_p, POINTER(c_void_p)]),
    "name": (c_char_p, [c_void_p]),
    "url": (c_char_p, [c_void_p, c_size_t]),
    "drain": (c_size_t, [c_void_p, c_uint]),
    "free": (c_void_p, [c_void_p]),
    "abandon": (None, []),
    "region_add": (c_int, [c_void_p, c_void_p, c_size_t, c_char_p, c_char_p, c_char_p]),
    "region_alloc": (c_int, [c_void_p, c_size_t, c_char_p, c_char_p, POINTER(c_void_p), c_char_p]),
    "region_remove": (c_int, [c_void_p, c_char_p]),
    "request_new": (c_void_p, [c_int]),
    "request_add": (c_int, [c_void_p, c_char_p, c_uint64, c_uint64]),
    "request_add_row": (c_int, [c_void_p, c_char_p, c_uint64, c_uint64, c_uint64, c_uint64]),
    "request_add_blocks": (c_int, [c_void_p, c_char_p, c_uint64, c_uint64, POINTER(c_uint64), c_size_t]),
    "request_add_remote": (c_int, [c_void_p, POINTER(c_uint64), POINTER(c_uint64), c_size_t]),
    "request_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "request_free": (c_void_p, [c_void_p]),
    "operation_create": (c_int, [c_void_p, c_void_p, c_char_p, POINTER(c_void_p)]),
    "operation_id": (c_char_p, [c_void_p]),
    "operation_metadata": (c_int, [c_void_p, POINTER(c_char_p)]),
    "operation_status": (c_int, [c_void_p]),
    "operation_wait": (c_int, [c_void_p, c_int]),
    "operation_result": (c_int, [c_void_p]),
    "operation_bytes_done": (c_uint64, [c_void_p]),
    "operation_bytes_total": (c_uint64, [c_void_p]),
    "operation_transport": (c_char_p, [c_void_p]),
    "operation_duration_us": (c_uint64, [c_void_p]),
    "operation_cancel": (None, [c_void_p]),
    "operation_free": (c_void_p, [c_void_p]),
    "operation_renew": (c_int, [c_void_p, c_uint64]),
    "connect": (c_int, [c_void_p, c_char_p, c_int]),
    "decline": (c_int, [c_void_p, c_char_p, c_int]),
    "renew": (c_int, [c_void_p, c_char_p, c_uint64, c_int, POINTER(c_uint64)]),
    "events_new": (c_int, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "events_fd": (c_int, [c_void_p]),
    "events_take": (c_int, [c_void_p, POINTER(c_char_p)]),
    "events_free": (c_void_p, [c_void_p]),
    "queue_new": (c_int, [POINTER(c_void_p)]),
    "queue_fd": (c_int, [c_void_p]),
    "queue_add": (c_int, [c_void_p, c_void_p, c_void_p]),
    "queue_take": (c_int, [c_void_p, POINTER(c_void_p)]),
    "queue_free": (c_void_p, [c_void_p]),
}


class Library:
    """The functions of ferry/worker.h that are called here, without their prefix, and ferry_error_code."""

    def __init__(self) -> None:
        loaded = _load()
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, "ferry_worker_" + name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)
        self.error_code = loaded.ferry_error_code
        self.error_code.restype = c_char_p
        self.error_code.argtypes = [c_int]

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...


def _candidates() -> list[str]:
    given = os.environ.get("FERRY_WORKER_LIBRARY")
    if given:
        return [given]
    bundled = os.path.join(os.path.dirname(__file__), SONAME)
    found = [bundled] if os.path.exists(bundled) else []
    try:
        from ._installed import LIBRARY  # written by meson install
        found.append(LIBRARY)
    except ImportError:
        pass
    return found + [SONAME]


def _load() -> ctypes.CDLL:
    errors = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            errors.append(str(error))
    raise ImportError(
        "libferry-worker cannot be loaded: " + "; ".join(errors) + ". `pip install ./client/python` in Ferry's checkout builds it; "
        "FERRY_WORKER_LIBRARY names one that is elsewhere")


_library: Library | None = None


def library() -> Library:
    """Loaded at the first use, so that `import ferry` alone needs none."""
    global _library
    if _library is None:
        _library = Library()
    return _library
