# SPDX-License-Identifier: Apache-2.0
"""The API of dynamo.nixl_connect on Ferry: another import, and nothing else changes.

    from ferry import nixl_connect as connect

    connector = connect.Connector()
    descriptor = connect.Descriptor(tensor)
    with connector.create_readable(descriptor) as offer:          # or: with await …, async with …
        send(offer.metadata().model_dump_json())
        await offer.wait_for_completion()

    async with connector.begin_read(metadata, descriptor) as read:  # or (descriptor, metadata)
        await read.wait_for_completion()

Better than there: waiting polls nowhere, both sides learn of a failure (wait_for_completion raises), leaving a block
cancels and leaves the memory quiet, and a peer reaches the memory of one operation, not all of the process. All
connectors of a process share one worker; its options come from the environment (FERRY_LOCAL, FERRY_DATA_LISTEN, …).
"""
from __future__ import annotations

import base64
import collections.abc
import enum
import json
import os
import re
import socket
import sys
import threading
import uuid
from typing import Any, Generator, Protocol, TypeVar, Union, overload

from ._memory import Memory, array_memory, buffer_memory, check_storage, is_array, is_tensor, tensor_memory
from .errors import FerryError, OperationFailed
from .offer import blob_text
from .worker import Operation as _WorkerOperation
from .worker import OfThisProcess, Region, Request, Worker

try:
    import pydantic
except ImportError:
    pydantic = None  # type: ignore[assignment]

__all__ = [
    "AbstractOperation", "ActiveOperation", "Connection", "Connector", "Descriptor", "Device", "DeviceKind",
    "OperationFailed", "OperationKind", "OperationStatus", "PassiveOperation", "RdmaMetadata", "ReadOperation",
    "ReadableOperation", "Remote", "SerializedDescriptor", "WritableOperation", "WriteOperation",
]


class DeviceKind(enum.IntEnum):
    UNSPECIFIED = 0
    HOST = 1
    CUDA = 2
    XPU = 3  # upstream's; a worker here knows no memory of it

    def __str__(self) -> str:
        return {DeviceKind.HOST: "cpu", DeviceKind.CUDA: "cuda", DeviceKind.XPU: "xpu"}.get(self, "<invalid>")

    @property
    def nixl_mem_type(self) -> str:
        return "DRAM" if self == DeviceKind.HOST else "VRAM"


class OperationKind(enum.IntEnum):
    UNSPECIFIED = 0
    READ = 1
    WRITE = 2

    def __str__(self) -> str:
        return self.name


class OperationStatus(enum.IntEnum):
    UNINITIALIZED = 0
    INITIALIZED = 1
    IN_PROGRESS = 2
    COMPLETE = 3
    CANCELLED = 4
    ERRORED = 5

    def __str__(self) -> str:
        return self.name


_DEVICE = r"^(cpu|host|cuda|gpu|xpu)(?::(\d+))?$"
_DEVICE_KINDS = {"cpu": DeviceKind.HOST, "host": DeviceKind.HOST, "xpu": DeviceKind.XPU}


class Device:
    """Where memory is: of "cpu", "cuda", "cuda:1", "gpu:1" or (DeviceKind, id)."""

    def __init__(self, metadata: Union[str, tuple[DeviceKind, int]]) -> None:
        self._kind, self._id = self._parse(metadata)

    @staticmethod
    def _parse(metadata: Any) -> tuple[DeviceKind, int]:
        if isinstance(metadata, str):
            match = re.match(_DEVICE, metadata.strip().lower())
            if not match:
                raise ValueError(f'"{metadata}" is not a device: "cpu", "cuda" or "cuda:<index>"')
            return _DEVICE_KINDS.get(match[1], DeviceKind.CUDA), int(match[2] or 0)
        if isinstance(metadata, tuple) and len(metadata) == 2 and isinstance(metadata[1], int):
            if metadata[0] not in (DeviceKind.HOST, DeviceKind.CUDA, DeviceKind.XPU):
                raise ValueError("the device's kind is neither HOST nor CUDA nor XPU")
            return DeviceKind(metadata[0]), metadata[1]
        raise TypeError("a device is made of a str or of (DeviceKind, int)")

    @property
    def kind(self) -> DeviceKind:
        return self._kind

    @property
    def id(self) -> int:
        return self._id

    def __str__(self) -> str:
        return str(self._kind) if self._kind == DeviceKind.HOST else f"{self._kind}:{self._id}"

    def __repr__(self) -> str:
        return f"Device('{self}')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self._kind, self._id) == (other._kind, other._id)

    def __hash__(self) -> int:
        return hash((self._kind, self._id))


_CPU = Device("cpu")

# ---- metadata ----

if pydantic is not None:

    class SerializedDescriptor(pydantic.BaseModel):
        """A descriptor of the peer. ptr is an opaque handle."""

        model_config = pydantic.ConfigDict(extra="forbid", from_attributes=True)
        device: str = pydantic.Field("cpu", pattern=_DEVICE)
        ptr: int = pydantic.Field(gt=0)
        size: int = pydantic.Field(gt=0)

        def to_descriptor(self) -> Descriptor:
            return Descriptor.from_serialized(self)

    class RdmaMetadata(pydantic.BaseModel):
        """What a peer needs to complete an operation: a secret, as JSON by model_dump_json()."""

        model_config = pydantic.ConfigDict(extra="forbid", from_attributes=True)
        descriptors: list[SerializedDescriptor] = []
        nixl_metadata: str
        notification_key: str
        operation_kind: int

        def to_descriptors(self) -> Union[Descriptor, list[Descriptor]]:
            return _to_descriptors(self.descriptors)

else:
    _MISSING: Any = object()
    _quote = json.JSONEncoder().encode

    class _Model:
        """The methods of pydantic's models that programs use, where there is no pydantic."""

        def _refuse(self, unknown: dict[str, Any]) -> None:
            if unknown:
                raise ValueError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")

        def _take(self, name: str, value: Any, kind: type) -> Any:
            if type(value) is not kind:
                if value is _MISSING:
                    raise ValueError(f"{type(self).__name__} needs the field {name}")
                if not isinstance(value, kind) or isinstance(value, bool):
                    raise ValueError(f"{type(self).__name__}.{name} is not of type {kind.__name__}")
                value = kind(value)  # an int instead of an enum's member
            return value

        def model_dump(self) -> dict[str, Any]:
            return vars(self).copy()

        @classmethod
        def model_validate(cls, value: Any) -> Any:
            if isinstance(value, cls):
                return value
            if not isinstance(value, dict):
                raise ValueError(f"{cls.__name__} is made of a dict")
            return cls(**value)

        @classmethod
        def model_validate_json(cls, text: Union[str, bytes]) -> Any:
            return cls.model_validate(json.loads(text))

        def __eq__(self, other: object) -> bool:
            return type(other) is type(self) and vars(other) == vars(self)

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"

    class SerializedDescriptor(_Model):  # type: ignore[no-redef]
        """A descriptor of the peer. ptr is an opaque handle."""

        def __init__(self, *, device: Any = "cpu", ptr: Any = _MISSING, size: Any = _MISSING, **unknown: Any) -> None:
            self._refuse(unknown)
            self.device = self._take("device", device, str)
            self.ptr = self._take("ptr", ptr, int)
            self.size = self._take("size", size, int)
            if device != "cpu":
                Device(device)
            if ptr <= 0 or size <= 0:
                raise ValueError("SerializedDescriptor.ptr and .size must be greater than 0")

        def model_dump_json(self) -> str:
            return f'{{"device":{_quote(self.device)},"ptr":{self.ptr:d},"size":{self.size:d}}}'

        def to_descriptor(self) -> Descriptor:
            return Descriptor.from_serialized(self)

    class RdmaMetadata(_Model):  # type: ignore[no-redef]
        """What a peer needs to complete an operation: a secret, as JSON by model_dump_json()."""

        def __init__(self, *, descriptors: Any = _MISSING, nixl_metadata: Any = _MISSING,
                     notification_key: Any = _MISSING, operation_kind: Any = _MISSING, **unknown: Any) -> None:
            self._refuse(unknown)
            given = [] if descriptors is _MISSING else self._take("descriptors", descriptors, list)
            self.descriptors = [SerializedDescriptor.model_validate(one) for one in given]
            self.nixl_metadata = self._take("nixl_metadata", nixl_metadata, str)
            self.notification_key = self._take("notification_key", notification_key, str)
            self.operation_kind = self._take("operation_kind", operation_kind, int)

        def model_dump(self) -> dict[str, Any]:
            return {**vars(self), "descriptors": [one.model_dump() for one in self.descriptors]}

        def model_dump_json(self) -> str:
            descriptors = ",".join([one.model_dump_json() for one in self.descriptors])
            return (f'{{"descriptors":[{descriptors}],"nixl_metadata":{_quote(self.nixl_metadata)},'
                    f'"notification_key":{_quote(self.notification_key)},"operation_kind":{self.operation_kind:d}}}')

        def to_descriptors(self) -> Union[Descriptor, list[Descriptor]]:
            return _to_descriptors(self.descriptors)


def _to_descriptors(serialized: list[Any]) -> Any:
    if not serialized:
        raise ValueError("the metadata have no descriptor: ask the peer for others")
    descriptors = [Descriptor.from_serialized(one) for one in serialized]
    return descriptors[0] if len(descriptors) == 1 else descriptors


class Metadata(Protocol):
    """RdmaMetadata, of this module or of upstream, for type checkers."""

    descriptors: Any
    nixl_metadata: Any
    notification_key: Any
    operation_kind: Any

    def model_dump_json(self) -> str: ...


_METADATA_MEMBERS = ("descriptors", "nixl_metadata", "notification_key", "operation_kind", "model_dump_json")


def _is_metadata(value: Any) -> bool:
    """RdmaMetadata, of this module or of upstream."""
    return isinstance(value, RdmaMetadata) or all(hasattr(value, name) for name in _METADATA_MEMBERS)


_OF_NIXL = ("the peer's metadata comes from NIXL, not from Ferry: run the peer with python -m ferry.dynamo as well. Media that "
            "Dynamo's frontend has decoded always come from NIXL: start the worker with --no-frontend-decoding")


def _is_of_nixl(blob: str) -> bool:
    """The blob has the form that upstream and Ferry have in common, and not Ferry's JSON inside."""
    try:
        return blob_text(blob)[:1] not in (b"", b"{")
    except ValueError:
        return False


def _metadata_text(metadata: Any) -> bytes:
    """As the worker reads it."""
    blob = metadata.nixl_metadata
    if not blob.startswith("b64:"):
        try:
            blob = "b64:" + base64.b64encode(bytes.fromhex(blob)).decode()
        except ValueError:
            pass  # the worker says what is wrong with it
        metadata = type(metadata)(**{**metadata.model_dump(), "nixl_metadata": blob})
    text: str = metadata.model_dump_json()
    return text.encode()


# ---- memory ----

class Descriptor(OfThisProcess):
    """Memory that takes part in operations.

    data is a torch tensor; (array, device) with an array of numpy or cupy; bytes, bytearray or any other buffer; or
    (ptr, size, device, reference), of which the last two may be left out. The memory must be contiguous. The descriptor
    and the operations that use it keep it alive. Memory that is not registered is registered for each operation.

    Programs of upstream keep registered descriptors for data of any size: they set _data_size before an operation, and
    look at the beginning of _data_ref after it.
    """

    def __init__(self, data: Any) -> None:
        self._region: Region | None = None
        self._region_of: Worker | None = None  # of the parent, after a fork
        self._requests: dict[str, tuple[int, Request]] = {}  # by kind, for _data_size as it was then
        self._connector: Connector | None = None
        self._device = _CPU
        self._data_ref: Any = data
        self._tensor: Any = None
        if data is None:
            raise ValueError("there is no data to describe: pass a tensor, an array or a buffer")
        if isinstance(data, tuple) and 2 <= len(data) <= 4 and isinstance(data[0], int):
            memory = self._of_pointer(*data)
        elif isinstance(data, tuple) and len(data) == 2:
            self._data_ref = data[0]
            memory = self._of_object(data[0], _device_of(data[1]))
        else:
            memory = self._of_object(data, None)
        self._ptr, self._data_size, self._writable, self._keep = memory

    def _of_pointer(self, ptr: int, size: Any, device: Any = "cpu", reference: Any = None) -> Memory:
        if not isinstance(size, int):
            raise TypeError("a descriptor of an address is (ptr: int, size: int, device, reference)")
        if ptr <= 0 or size <= 0:
            raise ValueError("ptr and size must be greater than 0")
        self._device, self._data_ref = _device_of(device), reference
        return Memory(ptr, size, True, reference)

    def _of_object(self, data: Any, device: Device | None) -> Memory:
        """device is what the program says, or None."""
        if is_tensor(data):
            memory = tensor_memory(data)
            self._tensor, place = memory.keep, data.device
            self._device = _CPU if place.type == "cpu" else Device(f"{place.type}:{place.index or 0}")
            if device not in (None, self._device):
                raise ValueError(f"the tensor is on {self._device}, not on {device}: pass the tensor alone")
            return memory
        if device is not None or is_array(data):
            self._device = device or (Device("cuda") if hasattr(data, "__cuda_array_interface__") else _CPU)
            return array_memory(data)
        return buffer_memory(data)

    @property
    def device(self) -> Device:
        return self._device

    @property
    def ptr(self) -> int:
        return self._ptr

    @property
    def size(self) -> int:
        return self._data_size

    @property
    def is_registered(self) -> bool:
        return self._region is not None

    @property
    def metadata(self) -> SerializedDescriptor:
        return SerializedDescriptor(device=str(self._device), ptr=self._ptr, size=self._data_size)

    @staticmethod
    def from_serialized(serialized: SerializedDescriptor) -> Descriptor:
        """Of the peer's memory: for its size and device; no operation here takes it."""
        descriptor = Descriptor((serialized.ptr, serialized.size, serialized.device, serialized))
        descriptor._keep = _REMOTE
        return descriptor

    def register_with_connector(self, connection: Connector) -> None:
        """Registers the memory once, for any number of operations."""
        _check_connector(connection)
        if self._region is not None and self._connector != connection:
            raise RuntimeError("the descriptor is registered with another connector: deregister it there first")
        if self._region is None:
            self._connector, self._region_of = connection, _shared_worker()
            self._region = self._use(self._region_of, False)

    def deregister_with_connector(self, connection: Connector) -> None:
        """Lets go of it, or leaves that to the last operation that uses it."""
        _check_connector(connection)
        if self._region is None or self._connector != connection:
            raise RuntimeError("the descriptor is not registered with this connector: register it first")
        self._region = self._connector = None
        self._requests = {}

    register_memory = register_with_connector  # the name of 2025

    def _use(self, worker: Worker, receives: bool) -> Region:
        """A region for one operation."""
        self._check(receives)
        if self._region is not None and self._region_of is worker:
            return self._region if self._data_size == self._region.size else self._region.slice(0, self._data_size)
        found = worker.region_at(self._ptr, self._data_size, self._keep)
        return found or worker.register(self._ptr, self._data_size, self._keep, str(self._device))

    def _check(self, receives: bool) -> None:
        if self._keep is _REMOTE:
            raise ValueError("the descriptor is of the peer's memory: pass one of memory of this process")
        if self._tensor is not None and self._tensor.data_ptr() != self._ptr:
            raise ValueError("the tensor was resized after its descriptor was made: make another")
        if self._tensor is not None:
            check_storage(self._tensor, self._data_size)
        if receives and not self._writable:
            raise ValueError("the memory is read-only and cannot receive bytes: pass a writable one")

    def _request(self, worker: Worker, kind: str, receives: bool) -> Request:
        """For an operation that moves nothing else. That of registered memory is kept for the next one."""
        size, request = self._requests.get(kind, _NO_REQUEST)
        if size == self._data_size and self._region_of is worker:
            self._check(receives)
        else:
            request = worker.request(kind, [self._use(worker, receives)])
            if self._region is not None and self._region_of is worker:
                self._requests[kind] = self._data_size, request
        return request

    def __repr__(self) -> str:
        return f"Descriptor(ptr={self._ptr:#x}, size={self._data_size}, device='{self._device}')"


_REMOTE = object()
_NO_REQUEST: Any = 0, None


def _check_connector(connection: Any) -> None:
    if not isinstance(connection, Connector):
        raise TypeError("a descriptor is registered with a Connector")


def _device_of(device: Any) -> Device:
    return device if isinstance(device, Device) else Device(device)


def _descriptor_list(descriptors: Any) -> list[Descriptor]:
    if isinstance(descriptors, Descriptor):
        return [descriptors]
    if not isinstance(descriptors, (list, tuple)) or not all(isinstance(one, Descriptor) for one in descriptors):
        raise TypeError("local_descriptors is a Descriptor or a list of them")
    if not descriptors:
        raise ValueError("there is no descriptor: pass at least one")
    return list(descriptors)


# ---- the connector ----

Descriptors = Union[Descriptor, "list[Descriptor]"]

class _Flag(int):
    """True or False, also when it is called."""

    def __call__(self) -> bool:
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


_shared_lock = threading.Lock()
_shared: Worker | None = None


def _shared_worker() -> Worker:
    global _shared
    if _shared is None:
        with _shared_lock:
            if _shared is None:
                _shared = Worker()
    return _shared


def _forget_shared() -> None:
    """The child of a fork makes its own."""
    global _shared_lock, _shared
    _shared_lock, _shared = threading.Lock(), None


os.register_at_fork(after_in_child=_forget_shared)


class Connector:
    """Creates operations. Its makers can be called plainly, awaited, and used by with and async with."""

    def __init__(self, worker_id: str | None = None) -> None:
        if worker_id is not None and not isinstance(worker_id, str):
            raise TypeError("worker_id is a str")
        self._name = worker_id or str(uuid.uuid4())
        self._hostname = socket.gethostname()

    @property
    def name(self) -> str:
        return self._name

    @property
    def hostname(self) -> str:
        return self._hostname

    @property
    def is_cuda_available(self) -> _Flag:
        """Of torch or cupy, whichever the program has loaded."""
        torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
        try:
            return _Flag(bool(torch and torch.cuda.is_available() or cupy and cupy.cuda.is_available()))
        except Exception:
            return _Flag(False)

    async def initialize(self) -> None:
        """There is nothing to do."""

    async def _create_connection(self) -> Connector:
        """What programs of upstream give to Descriptor.register_with_connector."""
        return self

    # What a Connection of upstream has beside.

    @property
    def connector(self) -> Connector:
        return self

    @property
    def metadata(self) -> bytes:
        """Empty: a peer reaches one operation, by the metadata of that, and nothing else."""
        return b""

    def acquire_remote_ref(self, name: str) -> None:
        """Nothing is kept for a peer here that would have to be counted."""

    def release_remote_ref(self, name: str) -> bool:
        """False: there is nothing to remove."""
        return False

    def allocate(self, size: int) -> memoryview:
        """Bytes that local peers can map, so that transfers copy once: see ferry.Worker.allocate."""
        return _shared_worker().allocate(size)

    def create_readable(self, local_descriptors: Union[Descriptor, list[Descriptor]]) -> ReadableOperation:
        return ReadableOperation(self, local_descriptors)

    def create_writable(self, local_descriptors: Union[Descriptor, list[Descriptor]]) -> WritableOperation:
        return WritableOperation(self, local_descriptors)

    @overload
    def begin_read(self, remote_metadata: Metadata, local_descriptors: Descriptors) -> ReadOperation: ...

    @overload
    def begin_read(self, remote_metadata: Descriptors, local_descriptors: Metadata) -> ReadOperation: ...

    def begin_read(self, remote_metadata: Any, local_descriptors: Any) -> ReadOperation:
        """The arguments are taken in both orders."""
        return ReadOperation(self, *_in_order(remote_metadata, local_descriptors))

    @overload
    def begin_write(self, local_descriptors: Descriptors, remote_metadata: Metadata) -> WriteOperation: ...

    @overload
    def begin_write(self, local_descriptors: Metadata, remote_metadata: Descriptors) -> WriteOperation: ...

    def begin_write(self, local_descriptors: Any, remote_metadata: Any) -> WriteOperation:
        """The arguments are taken in both orders."""
        return WriteOperation(self, local_descriptors, remote_metadata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Connector) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"Connector('{self._name}')"


Connection = Connector  # upstream's name of what is shared by the connectors of a process


def _in_order(first: Any, second: Any) -> tuple[Any, Any]:
    if _is_metadata(first):
        return first, second
    if _is_metadata(second):
        return second, first
    raise TypeError("one argument is RdmaMetadata, the other a Descriptor or a list of them")


class Remote:
    """The worker that made metadata, for its name: nothing is kept of it here that would have to be released."""

    def __init__(self, connection: Connector, nixl_metadata: Union[bytes, str]) -> None:
        _check_connector(connection)
        if not isinstance(nixl_metadata, (bytes, str)):
            raise TypeError("nixl_metadata is a str, or bytes")
        self._connection = connection
        try:
            self._name: str = json.loads(blob_text(nixl_metadata))["worker"]
        except (ValueError, KeyError, TypeError):
            raise ValueError("nixl_metadata does not come from a Ferry worker") from None

    @property
    def name(self) -> str:
        return self._name

    @property
    def connection(self) -> Connector:
        return self._connection

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"Remote('{self._name}')"


# ---- operations ----

_Op = TypeVar("_Op", bound="AbstractOperation")


class AbstractOperation(collections.abc.Coroutine[Any, Any, Any]):
    """What all four have in common. Awaiting one gives itself, at once."""

    _kind = ""
    _receives = False
    _operation_kind = OperationKind.UNSPECIFIED

    def __init__(self, connector: Connector, descriptors: list[Descriptor], remote: bytes | None) -> None:
        self._connector = connector
        self._descriptors = descriptors
        self._cancelled = False
        worker = _shared_worker()
        if len(descriptors) == 1:
            request = descriptors[0]._request(worker, self._kind, self._receives)
        else:
            request = worker.request(self._kind, [one._use(worker, self._receives) for one in descriptors])
        try:
            self._operation: _WorkerOperation = worker.start(request, remote)
        except FerryError as error:
            if self._receives and error.code == "forbidden":  # a tensor does not know that its memory is read-only
                raise ValueError(error.detail) from None
            raise

    @property
    def connector(self) -> Connector:
        return self._connector

    @property
    def connection(self) -> Connector:
        return self._connector

    @property
    def operation_kind(self) -> OperationKind:
        return self._operation_kind

    @property
    def status(self) -> OperationStatus:
        self._operation.done  # lets go of memory that is quiet
        return OperationStatus[self._operation.status]

    async def wait_for_completion(self) -> None:
        """Returns once the operation has ended. Raises OperationFailed when it failed, or when the peer cancelled it.

        After cancel() here it returns, and status tells.
        """
        operation = self._operation
        if not operation.done:
            await operation.ended()
        if not self._cancelled:
            operation.result()

    def _cancel(self) -> None:
        if not self._operation.done:
            self._cancelled = True
            self._operation.cancel()

    def __enter__(self: _Op) -> _Op:
        return self

    def __exit__(self, *_: Any) -> None:
        self._cancel()
        self._operation.close()

    async def __aenter__(self: _Op) -> _Op:
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._cancel()
        await self._operation.__aexit__(*error)

    # A coroutine that has its result already, for programs that await the makers or make tasks of them.
    def __await__(self: _Op) -> Generator[Any, None, _Op]:
        return self
        yield

    def send(self, _: Any) -> Any:
        raise StopIteration(self)

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        raise kind if value is None else value

    def close(self) -> None:
        pass

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._operation.id}, {self.status})"


class PassiveOperation(AbstractOperation):
    def __init__(self, connection: Connector, local_descriptors: Any) -> None:
        super().__init__(connection, _descriptor_list(local_descriptors), None)
        self._metadata = self._operation.metadata_text()

    def metadata(self, hex_encode: bool = False) -> RdmaMetadata:
        """For the peer; whoever has it may complete this operation, and nothing else."""
        metadata: RdmaMetadata = RdmaMetadata.model_validate_json(self._metadata)
        if hex_encode:
            metadata.nixl_metadata = base64.b64decode(metadata.nixl_metadata[4:]).hex()
        return metadata


class ActiveOperation(AbstractOperation):
    def __init__(self, connection: Connector, remote_metadata: Any, local_descriptors: Any) -> None:
        descriptors = _descriptor_list(local_descriptors)
        kind = int(remote_metadata.operation_kind)
        if kind != self._operation_kind:
            raise RuntimeError(f"the metadata is of a {OperationKind(kind) if kind in (0, 1, 2) else kind} operation, "
                               f"and this is a {self._operation_kind}")
        ours = [one._data_size for one in descriptors]
        theirs = [one.size for one in remote_metadata.descriptors]
        if ours != theirs:
            raise _sizes_differ(ours, theirs)
        self._blob: str = remote_metadata.nixl_metadata
        try:
            super().__init__(connection, descriptors, _metadata_text(remote_metadata))
        except FerryError as error:
            if error.code == "invalid-metadata" and _is_of_nixl(self._blob):
                raise FerryError(error.code, _OF_NIXL) from None
            raise

    @property
    def remote(self) -> Remote:
        return Remote(self._connector, self._blob)

    def cancel(self) -> None:
        """Asks for the end; wait_for_completion returns when the memory is quiet."""
        self._cancel()


def _sizes_differ(ours: list[int], theirs: list[int]) -> ValueError:
    if len(theirs) != len(ours):
        return ValueError(f"{len(ours)} descriptors here, {len(theirs)} of the peer: pass as many")
    i, here, there = next((i, *sizes) for i, sizes in enumerate(zip(ours, theirs)) if sizes[0] != sizes[1])
    return ValueError(f"descriptor {i} has {here} bytes here, {there} of the peer: pass as many")


class ReadableOperation(PassiveOperation):
    """Offers memory to one read of a peer."""

    _kind, _operation_kind = "readable", OperationKind.READ


class WritableOperation(PassiveOperation):
    """Offers memory to one write of a peer."""

    _kind, _receives, _operation_kind = "writable", True, OperationKind.WRITE


class ReadOperation(ActiveOperation):
    """Reads a peer's memory; begins at once."""

    _kind, _receives, _operation_kind = "read", True, OperationKind.READ

    def results(self) -> list[Descriptor]:
        """The descriptors that were read into."""
        if self.status != OperationStatus.COMPLETE:
            raise RuntimeError(f"the read is not complete: {self.status} (await wait_for_completion() first)")
        return list(self._descriptors)


class WriteOperation(ActiveOperation):
    """Writes into a peer's memory; begins at once."""

    _kind, _operation_kind = "write", OperationKind.WRITE

    def __init__(self, connection: Connector, local_descriptors: Any, remote_metadata: Any) -> None:
        super().__init__(connection, *_in_order(remote_metadata, local_descriptors))
