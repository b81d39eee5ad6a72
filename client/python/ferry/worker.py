# SPDX-License-Identifier: Apache-2.0
"""A worker inside this process, over libferry-worker: memory and transfers without HTTP.

    worker = Worker()
    memory = worker.allocate(1 << 20)                      # shared memory; numpy.frombuffer(memory, …) shares it
    offer = worker.create("readable", [memory])            # offer.metadata goes to the peer, by any way
    ...
    with peer.create("read", [mine], remote=metadata) as read:
        await read.completed()                             # or read.wait(timeout)

All functions may be called from any thread. A worker belongs to the process that made it: after a fork the child's
calls raise. Operations keep their memory alive; it is quiet once they are done.
"""
from __future__ import annotations

import array
import asyncio
import atexit
import bisect
import collections
import contextlib
import ctypes
import errno
import itertools
import json
import math
import operator
import os
import re
import threading
import time
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union

from ._library import ID_SIZE, library
from ._memory import buffer_memory
from .errors import FerryError, OperationFailed
from .offer import metadata_value

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._fields import CreateFields, Kind, RequestFields

STATUSES = ("UNINITIALIZED", "INITIALIZED", "IN_PROGRESS", "COMPLETE", "CANCELLED", "ERRORED")
KINDS = {"readable": 0, "read": 1, "writable": 2, "write": 3}
_NOT_DONE = (-errno.EAGAIN, -errno.ECHILD)  # of operation_result; the latter in a forked process
_WAIT_MS = 100  # of one wait in C, during which Python handles no signal: Ctrl-C comes between two


def _error(result: int) -> FerryError | OSError:
    """The library names options as ferryd has them; in a program they are in the environment, or arguments of Worker."""
    lib = library()
    text = re.sub("--([a-z][a-z-]+)", lambda found: "FERRY_" + found[1].replace("-", "_").upper(),
                  lib.error().decode(errors="replace"))
    if result == -errno.ECHILD:
        return FerryError("forked", text)
    if result < 0:
        return OSError(-result, text)
    code = lib.error_code(result).decode()
    if code == "limit-reached" and "FERRY_" in text:
        text += ": set a larger one before the worker is made"
    return FerryError(code, text)


def _check(result: int) -> None:
    if result:
        raise _error(result)


def _text(value: str) -> bytes:
    encoded = value.encode()
    if b"\0" in encoded:
        raise ValueError(f"{value!r} has a NUL, which C takes for its end")
    return encoded


def _metadata_text(metadata: Any) -> str:
    return metadata if isinstance(metadata, str) else json.dumps(metadata_value(metadata))


def _option(value: Any) -> str:
    if isinstance(value, Operation):
        return value.id
    return str(value).lower() if isinstance(value, bool) else str(value)


def numbers_of(values: Iterable[int]) -> ctypes.Array[ctypes.c_uint64]:
    """Numbers as C takes them. Of blocks they are made once, where many regions have blocks of the same numbers."""
    try:
        given = array.array("Q", map(operator.index, values))
    except OverflowError:
        raise ValueError("a number is negative, or has more than 64 bits") from None
    return (ctypes.c_uint64 * len(given)).from_buffer(given)  # six times as fast as made of a list


class OfThisProcess:
    """What no copy may share: it would be freed twice, or be of memory that has gone."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} belongs to this process: it can be neither copied nor pickled")


class Region:
    """Memory that a worker knows, in whole or in part: region.slice(offset, size) is a Region as well."""

    __slots__ = ("id", "offset", "size", "address", "keep", "pieces", "__weakref__")

    def __init__(self, id: bytes, offset: int, size: int, address: int, keep: Any) -> None:
        self.id = id
        self.offset = offset
        self.size = size
        self.address = address
        self.keep = keep
        self.pieces: tuple[int, Any] | None = None  # size of each, and (count, stride) or an array of blocks

    def _whole(self) -> Region:
        if self.pieces is not None:
            raise ValueError("these are pieces of a region already, of which no part can be taken")
        return Region(self.id, self.offset, self.size, self.address, self)

    def slice(self, offset: int, size: int) -> Region:
        part = self._whole()
        if offset < 0 or size <= 0 or offset + size > self.size:
            raise ValueError(f"no {size} bytes at {offset} in a region of {self.size}")
        part.offset, part.size, part.address = self.offset + offset, size, self.address + offset
        return part

    def blocks(self, size: int, numbers: Iterable[int]) -> Region:
        """The pieces of size bytes at number * size, in this order, as one descriptor; numbers may come from numbers_of()."""
        (size,) = numbers_of([size])
        part = self._whole()
        part.pieces = size, numbers if isinstance(numbers, ctypes.Array) else numbers_of(numbers)
        return part

    def row(self, size: int, count: int, stride: int) -> Region:
        """count pieces of size bytes, each stride bytes after the one before, as one descriptor."""
        size, count, stride = numbers_of([size, count, stride])
        part = self._whole()
        part.pieces = size, (count, stride)
        return part

    def _add_to(self, lib: Any, request: int) -> int:
        if self.pieces is None:
            return lib.request_add(request, self.id, self.offset, self.size)
        size, shape = self.pieces
        if isinstance(shape, tuple):
            return lib.request_add_row(request, self.id, self.offset, size, *shape)
        return lib.request_add_blocks(request, self.id, self.offset, size, shape, len(shape))


class _Memory(OfThisProcess):
    """Removes a region once nothing of this process refers to it; later, while an operation still uses it."""

    def __init__(self, worker: _Native, id: bytes) -> None:
        self.worker = worker
        self.id = id

    def __del__(self) -> None:
        self.worker.remove(self.id)


class _Blocks:
    """Memory of allocate, by address, to know bytes that are inside of it. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: list[int] = []
        self._regions: list[Region] = []
        self._freed: collections.deque[int] = collections.deque()

    def __bool__(self) -> bool:
        """Takes no lock either. For a moment true although the last one has gone."""
        return len(self._starts) > len(self._freed)

    def add(self, region: Region) -> None:
        with self._lock:
            self._forget_freed()
            at = bisect.bisect(self._starts, region.address)
            self._starts.insert(at, region.address)
            self._regions.insert(at, region)

    def remove(self, address: int) -> None:
        """Takes no lock: the garbage collector calls it, maybe in a thread that has the lock."""
        self._freed.append(address)

    def _forget_freed(self) -> None:
        while self._freed:
            at = bisect.bisect_left(self._starts, self._freed.popleft())
            del self._starts[at], self._regions[at]

    def find(self, address: int, size: int) -> Region | None:
        with self._lock:
            self._forget_freed()
            at = bisect.bisect(self._starts, address) - 1
            if at < 0 or address + size > self._starts[at] + self._regions[at].size:
                return None
            return Region(self._regions[at].id, address - self._starts[at], size, address, None)


class _Native(OfThisProcess):
    """Owner of the C worker: freed when neither the Worker nor any of its memory is left.

    "with native as pointer" is a call of it. A worker that is closed meanwhile is freed by the last of them. Calls take
    no lock, also because the garbage collector makes some: each puts itself on the list before it looks at the pointer.
    """

    pointer: int | None = None

    def __init__(self, options: Iterable[tuple[str, str]]) -> None:
        self.lib = library()
        self.pid = os.getpid()
        self.closing = False
        self.blocks = _Blocks()
        self._leftovers: collections.deque[bytes] = collections.deque()
        self._calls: list[None] = []
        self._lock = threading.RLock()  # of free
        given = self.lib.options_new()
        try:
            _check(self.lib.options_environment(given))
            for name, value in options:
                _check(self.lib.options_set(given, _text(name), _text(value)))
            pointer = ctypes.c_void_p()
            _check(self.lib.new(given, ctypes.byref(pointer)))
            self.pointer = pointer.value
        finally:
            self.lib.options_free(given)

    def __enter__(self) -> int:
        self._calls.append(None)
        pointer = self.pointer
        if pointer is None or self.closing:
            self.__exit__()
            raise FerryError("closed", "The worker is closed")
        return pointer

    def __exit__(self, *_: Any) -> None:
        self._calls.pop()
        if self.closing and os.getpid() == self.pid:
            self._free()

    def _free(self) -> None:
        """Unless there is a call or memory, after which it is called again."""
        with self._lock:
            pointer, self.pointer = self.pointer, None
            if self._calls or self.blocks:
                pointer, self.pointer = None, pointer
        if pointer is not None:
            self.lib.free(pointer)

    def remove(self, id: bytes) -> None:
        """Removes a region, and those that could not be before."""
        self._leftovers.append(id)
        self._calls.append(None)  # a call of a closed worker as well, whose memory may outlive it
        pointer = self.pointer
        with contextlib.suppress(IndexError):
            for _ in range(len(self._leftovers) if pointer else 0):
                one = self._leftovers.popleft()
                if self.lib.region_remove(pointer, one) == 13:  # FERRY_E_REGION_IN_USE
                    self._leftovers.append(one)
        self.__exit__()

    def __del__(self) -> None:
        if self.pointer is not None and os.getpid() == self.pid:
            self.lib.free(self.pointer)
            self.pointer = None


_living: weakref.WeakSet[Worker] = weakref.WeakSet()


def _close_all() -> None:
    """Before the interpreter frees what operations read and write."""
    for worker in list(_living):
        worker.close()
    if _living:
        library().abandon()


atexit.register(_close_all)


class Worker:
    """Options are those of ferryd, with _ for -: listen, local, data_listen, memory_limit, name, …; a list repeats.

    What the environment has as FERRY_<OPTION> holds where no argument, or None, says otherwise. It serves no HTTP
    unless listen says so.
    """

    def __init__(self, **options: Union[str, int, bool, Iterable[str], None]) -> None:
        pairs = []
        for name, value in options.items():
            if value is None:
                continue
            for one in [value] if isinstance(value, (str, int)) else value:
                pairs.append((name.replace("_", "-"), _option(one)))
        self._native = _Native(pairs)
        self._lib = self._native.lib
        _living.add(self)
        self._loops: weakref.WeakKeyDictionary[Any, _LoopQueue] = weakref.WeakKeyDictionary()
        self._ended: _EndedQueue | None = None

    @property
    def name(self) -> str:
        with self._native as pointer:
            return self._lib.name(pointer).decode()

    @property
    def urls(self) -> list[str]:
        """Base URLs of the HTTP listeners."""
        with self._native as pointer:
            urls = (self._lib.url(pointer, i) for i in itertools.count())
            return [url.decode() for url in itertools.takewhile(lambda url: url is not None, urls)]

    def allocate(self, size: int, name: str | None = None) -> memoryview:
        """size bytes of zeros that local peers can map: transfers from here need no second copy.

        A memoryview of bytes, writable; numpy.frombuffer and torch.frombuffer share it. The memory lives as long as
        anything refers to it.
        """
        (size,) = numbers_of([size])
        address = ctypes.c_void_p()
        id = ctypes.create_string_buffer(ID_SIZE)
        blocks = self._native.blocks
        with self._native as pointer:
            _check(self._lib.region_alloc(pointer, size, None, _text(name) if name else None,
                                          ctypes.byref(address), id))
            start = address.value or 0
            blocks.add(Region(id.value, 0, size, start, None))
        # A class of its own, so that it can hold more than bytes.
        block = type("FerryMemory", (ctypes.c_char * size,), {}).from_address(start)
        block.memory = _Memory(self._native, id.value)
        weakref.finalize(block, blocks.remove, start).atexit = False
        return memoryview(block).cast("B")

    def register(self, address: int, size: int, keep: Any = None, device: str = "cpu",
                 name: str | None = None) -> Region:
        """Memory that the program owns, as a region. keep is held as long as the region is."""
        if not 0 < address < address + size <= 1 << 64:
            raise ValueError(f"no memory has {size} bytes at {address:#x}")
        id = ctypes.create_string_buffer(ID_SIZE)
        with self._native as pointer:
            _check(self._lib.region_add(pointer, address, size, _text(device), _text(name) if name else None, id))
        return Region(id.value, 0, size, address, (_Memory(self._native, id.value), keep))

    def region_at(self, address: int, size: int, keep: Any = None) -> Region | None:
        """The part of a region of allocate that these bytes are."""
        found = self._native.blocks.find(address, size)
        if found is not None:
            found.keep = keep
        return found

    def region(self, memory: Any, writable: bool = True) -> Region:
        """What an operation takes: a Region as it is; else the buffer (bytes, memoryview, array, …) registered."""
        if isinstance(memory, Region):
            return memory
        found = buffer_memory(memory)
        if writable and not found.writable:
            raise ValueError("the memory is read-only and cannot receive bytes")
        return self.region_at(found.address, found.size, found.keep) or \
            self.register(found.address, found.size, found.keep)

    def create(self, kind: Kind, memory: Iterable[Any], remote: str | None = None,
               **fields: Unpack[CreateFields]) -> Operation:
        """Creates an operation and, for "read" and "write", begins it.

        memory is a list of what region() takes. remote is the peer's metadata as JSON, or the URL of it. fields are
        those of POST /v1/operations: ttl_ms, timeout_ms, verify, layout, transports=["shm", "tcp"], follow=read, …; None
        is left out. parts=[(offset, size), …] are the parts of the offer to read or write, "remote" there.
        """
        if not isinstance(remote, (str, type(None))):
            raise TypeError("remote is the peer's metadata as JSON, or the URL of it: a str")
        return self.start(self.request(kind, memory, **fields), _text(remote) if remote else None)

    def request(self, kind: Kind, memory: Iterable[Any], parts: Iterable[tuple[int, int]] | None = None,
                **fields: Unpack[RequestFields]) -> Request:
        """What create makes of its arguments, for any number of operations by start."""
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is not a kind of operation: {', '.join(KINDS)}")
        receives = kind in ("read", "writable")
        request = Request(self._lib, kind, [self.region(one, receives) for one in memory])
        if parts is not None:
            request._add_parts(parts)
        for name, value in fields.items():
            if value is not None:
                text = ",".join(value) if isinstance(value, (list, tuple)) else _option(value)
                _check(self._lib.request_set(request.pointer, _text(name), _text(text)))
        return request

    def start(self, request: Request, remote: bytes | None = None) -> Operation:
        """One operation of a request of this worker."""
        made = ctypes.c_void_p()
        with self._native as pointer:
            _check(self._lib.operation_create(pointer, request.pointer, remote, ctypes.byref(made)))
        operation = Operation(self, made.value or 0, request)
        if self._ended is not None:
            self._ended.add(operation)
        return operation

    # ---- ends, for programs without asyncio ----

    @property
    def ended_fd(self) -> int:
        """A descriptor for poll and epoll, readable when ended() has an operation to return. From its first use on each
        operation of this worker is kept until ended() has returned it. The worker owns it: do not read or close it."""
        with self._native._lock:
            if self._ended is None:
                self._ended = _EndedQueue(self._native)
        return self._ended.fd

    def ended(self) -> list[Operation]:
        """The operations that have ended since the last call, in the order of their ends; see ended_fd."""
        return self._ended.take() if self._ended is not None else []

    # ---- other workers ----

    def connect(self, remote: Any, timeout: float | None = 30) -> None:
        """Connects to a peer before the first transfer needs it: remote is metadata of one of its operations, or its base
        URL. In asyncio: await asyncio.to_thread(worker.connect, remote)."""
        text = remote if isinstance(remote, str) and remote.startswith(("http", "ferry:")) else \
            _metadata_text(remote)
        self._call("connect", timeout, self._lib.connect, _text(text))

    def decline(self, metadata: Any, timeout: float | None = 10) -> None:
        """Says that nobody will use a peer's offer: it ends at once, CANCELLED with "declined"; of one with several uses
        one is taken. By the link to the peer, else over HTTP to hosts that allow_peer admits. timeout 0 does not wait for
        the answer."""
        self._call("decline", timeout, self._lib.decline, _text(_metadata_text(metadata)))

    def renew(self, metadata: Any, ttl_ms: int | None = None, timeout: float | None = 10) -> float | None:
        """Asks in the same way for more time: the offer expires ttl_ms from now (None: as long as it had at first), but
        not later than its renew_max_ms after its creation. In how many seconds it expires; None with timeout 0."""
        (ttl,) = numbers_of([ttl_ms or 0])
        left = ctypes.c_uint64()
        done = self._call("renew", timeout, lambda worker, text, ms: self._lib.renew(
            worker, text, ttl, ms, ctypes.byref(left)), _text(_metadata_text(metadata)))
        return left.value / 1000 if done else None

    def _call(self, what: str, timeout: float | None, call: Any, text: bytes) -> bool:
        """A call of the library that waits. False: it was begun, and timeout is 0."""
        timeout_ms = -1 if timeout is None else min(math.ceil(timeout * 1000), (1 << 31) - 1)
        with self._native as pointer:
            result = call(pointer, text, timeout_ms)
        if result == -errno.ETIMEDOUT and timeout:
            raise TimeoutError(f"{what}: the peer has not answered after {timeout} s")
        if result and result != -errno.ETIMEDOUT:
            raise _error(result)
        return not result

    def events(self, after: str | None = None) -> Events:
        """What happens in this worker from now on, or after the event of that id: what GET /v1/events tells."""
        return Events(self._native, after)

    def _queue(self, loop: asyncio.AbstractEventLoop) -> _LoopQueue:
        queue = self._loops.get(loop)
        if queue is None:
            queue = self._loops[loop] = _LoopQueue(self._native, loop)
        return queue

    def close(self) -> None:
        """Cancels every operation and waits until all are quiet. Memory of allocate stays while it is referred to."""
        native = self._native
        if os.getpid() == native.pid:
            with contextlib.suppress(FerryError), native as pointer:  # it may be closed
                self._lib.drain(pointer, 0)
                native.closing = True

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Request(OfThisProcess):
    """What operations of one kind move. Any thread."""

    __slots__ = ("_lib", "pointer", "kind", "regions")

    def __init__(self, lib: Any, kind: str, regions: list[Region]) -> None:
        self._lib = lib
        self.kind = kind
        self.regions = regions
        self.pointer = lib.request_new(KINDS[kind])
        for region in regions:
            _check(region._add_to(lib, self.pointer))

    def _add_parts(self, parts: Iterable[tuple[int, int]]) -> None:
        pairs = list(parts)
        offsets, sizes = (numbers_of(pair[i] for pair in pairs) for i in range(2))
        _check(self._lib.request_add_remote(self.pointer, offsets, sizes, len(pairs)))

    def __del__(self) -> None:
        self._lib.request_free(self.pointer)


class Operation(OfThisProcess):
    """One operation of a Worker. Leaving a with block, or dropping the last reference, cancels one that runs."""

    __slots__ = ("_lib", "_worker", "_pointer", "_request", "_complete", "_waiters", "kind", "__weakref__")

    def __init__(self, worker: Worker, pointer: int, request: Request) -> None:
        self._lib = worker._lib
        self._worker = worker
        self._pointer = pointer
        self._request: Request | None = request  # and by it the memory, until that is quiet
        self._complete = False  # known to be
        self._waiters: tuple[_LoopQueue | None, list[asyncio.Future[None]]] = _NO_WAITERS  # of the loop that waited last
        self.kind = request.kind

    @property
    def id(self) -> str:
        return self._lib.operation_id(self._pointer).decode()

    @property
    def metadata(self) -> str:
        """What a peer needs, as JSON: a secret."""
        return self.metadata_text().decode()

    def metadata_text(self) -> bytes:
        """metadata, encoded."""
        text = ctypes.c_char_p()
        with self._worker._native:  # which has the worker's name and addresses
            _check(self._lib.operation_metadata(self._pointer, ctypes.byref(text)))
        return text.value or b""

    @property
    def status(self) -> str:
        return STATUSES[self._lib.operation_status(self._pointer)]

    @property
    def done(self) -> bool:
        if self._request is None:
            return True
        result = self._lib.operation_result(self._pointer)
        if result in _NOT_DONE:
            return False
        self._complete = result == 0
        self._request = None  # its memory is quiet
        return True

    @property
    def bytes_done(self) -> int:
        return self._lib.operation_bytes_done(self._pointer)

    @property
    def bytes_total(self) -> int:
        return self._lib.operation_bytes_total(self._pointer)

    @property
    def transport(self) -> str:
        """What carried the bytes of a done operation: "shm", "tcp", …"""
        return self._lib.operation_transport(self._pointer).decode()

    @property
    def duration_us(self) -> int:
        """How long a done operation took from the first chunk, in microseconds; 0 before."""
        return self._lib.operation_duration_us(self._pointer)

    def renew(self, ttl_ms: int | None = None) -> None:
        """Gives an offer ttl_ms from now, or as long as it had at first. metadata then names the new time."""
        _check(self._lib.operation_renew(self._pointer, *numbers_of([ttl_ms or 0])))

    def result(self) -> None:
        """Raises OperationFailed when the operation, which is done, is not COMPLETE."""
        if self._complete:
            return
        result = self._lib.operation_result(self._pointer)
        if result:
            error = _error(result)
            if isinstance(error, FerryError):
                raise OperationFailed(error.code, error.detail, self.status)
            raise error

    def wait(self, timeout: float | None = None) -> None:
        """Blocks until it is done; raises OperationFailed, or TimeoutError after so many seconds."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self.done:
            left_ms = math.ceil(min(max(0, end - time.monotonic()) * 1000, _WAIT_MS))
            result = self._lib.operation_wait(self._pointer, left_ms)
            if result == -errno.ECHILD:
                raise _error(result)
            if result == -errno.ETIMEDOUT and not left_ms:
                raise TimeoutError(f"{self.id} is not done after {timeout} s")
        self.result()

    async def ended(self) -> None:
        """Returns once the operation is done, however it ended."""
        if not self.done:
            loop = _running_loop()
            if loop is None:
                raise RuntimeError("no event loop of asyncio runs here, and an operation is awaited in one: with trio, "
                                   "await trio.to_thread.run_sync(asyncio.run, this)")
            await self._worker._queue(loop).wait(self)
            self._request = None

    async def completed(self) -> None:
        """As wait, in asyncio's loop."""
        await self.ended()
        self.result()

    def cancel(self) -> None:
        """Asks for the end; wait or ended tell when the memory is quiet."""
        self._lib.operation_cancel(self._pointer)

    def close(self) -> None:
        """Cancels what still runs and waits until the memory is quiet."""
        if not self.done:
            self.cancel()
            self._lib.operation_wait(self._pointer, -1)
            self._request = None

    def __enter__(self) -> Operation:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    async def __aenter__(self) -> Operation:
        return self

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        """Returns once the memory is quiet, however often the task is cancelled meanwhile."""
        if kind is GeneratorExit or _running_loop() is None:  # the loop has gone, or is of another kind
            self.close()
        cancelled = None
        while not self.done:
            self.cancel()
            try:
                await self.ended()
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled:
            raise cancelled

    def __del__(self) -> None:
        if self._request is not None:
            self.close()
        self._lib.operation_free(self._pointer)


_NO_WAITERS: Any = (None, [])


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Queue:
    """A queue of ended operations in C. Freed with the last reference."""

    pointer: int | None = None

    def __init__(self, native: _Native) -> None:
        self.lib = native.lib
        pointer = ctypes.c_void_p()
        _check(self.lib.queue_new(ctypes.byref(pointer)))
        self.pointer = pointer.value

    def __del__(self) -> None:
        self.lib.queue_free(self.pointer)


class _EndedQueue(_Queue):
    """The operations of a worker that ended() has not returned. Any thread."""

    def __init__(self, native: _Native) -> None:
        super().__init__(native)
        self._keys = itertools.count(1)
        self._operations: dict[int, Operation] = {}
        self.fd: int = self.lib.queue_fd(self.pointer)

    def add(self, operation: Operation) -> None:
        key = next(self._keys)
        self._operations[key] = operation
        try:
            _check(self.lib.queue_add(self.pointer, operation._pointer, key))
        except BaseException:
            del self._operations[key]
            raise

    def take(self) -> list[Operation]:
        context, ended = ctypes.c_void_p(), []
        while self.lib.queue_take(self.pointer, ctypes.byref(context)):
            operation = self._operations.pop(context.value or 0)
            operation._request = None  # its memory is quiet
            ended.append(operation)
        return ended


class Events(OfThisProcess):
    """Events of a worker, as dicts. fileno() is readable when take() has one: it goes into poll, epoll and add_reader."""

    _pointer: int | None = None

    def __init__(self, native: _Native, after: str | None) -> None:
        self._lib = native.lib
        pointer = ctypes.c_void_p()
        with native as worker:
            _check(self._lib.events_new(worker, None if after is None else _text(after), ctypes.byref(pointer)))
        self._pointer = pointer.value

    def fileno(self) -> int:
        return self._lib.events_fd(self._pointer)

    def take(self) -> list[dict[str, Any]]:
        """Those that have come since the last call. A gap is an event of type "missed", with how many."""
        text, events = ctypes.c_char_p(), []
        while True:
            result = self._lib.events_take(self._pointer, ctypes.byref(text))
            if result < 0:
                raise _error(result)
            if not result:
                return events
            events.append(json.loads(text.value or b""))

    def __del__(self) -> None:
        self._lib.events_free(self._pointer)


class _LoopQueue(_Queue):
    """The ends of operations that one event loop waits for, through one descriptor."""

    def __init__(self, native: _Native, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(native)
        self._keys = itertools.count(1)
        self._waiters: dict[int, list[asyncio.Future[None]]] = {}  # of each operation
        self._context = ctypes.c_void_p()
        self._reference = ctypes.byref(self._context)
        # The loop keeps it: the descriptor is open as long as the loop looks at it.
        loop.add_reader(self.lib.queue_fd(self.pointer), self.take)

    def take(self) -> None:
        while self.lib.queue_take(self.pointer, self._reference):
            for future in self._waiters.pop(self._context.value or 0, ()):
                if not future.done():
                    future.set_result(None)

    async def wait(self, operation: Operation) -> None:
        queue, waiters = operation._waiters
        if queue is not self:
            key, waiters = next(self._keys), []
            _check(self.lib.queue_add(self.pointer, operation._pointer, key))
            self._waiters[key] = waiters
            operation._waiters = self, waiters
        future = asyncio.get_running_loop().create_future()
        waiters.append(future)
        try:
            await future
        finally:
            waiters.remove(future)
