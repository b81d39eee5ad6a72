# SPDX-License-Identifier: Apache-2.0
"""A client of any worker's REST interface, with the standard library alone.

    import ferry

    here, there = ferry.Client("http://127.0.0.1:9300"), ferry.Client("http://other:9300")
    source = there.region(1 << 20)
    with source.buffer() as memory:                 # mapped where the worker is local, else by HTTP
        memory[:5] = b"hello"
    offer = there.offer(source)
    target = here.region(1 << 20)
    here.read(target, offer).wait(timeout=30)
    print(target.read(0, 5))

Several threads may use one Client, and processes forked from the one that made it. All errors are FerryError: of an
operation OperationFailed, and where no worker answers Unreachable, which is an OSError as well.
"""
from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import ssl
import stat
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Union

from ._http import Http
from ._memory import buffer_view
from .errors import FerryError, OperationFailed
from .offer import metadata_value

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._fields import BeginFields, OfferFields, OperationFilters, RegionFields, Row

_LATE_S = 1  # how late the answer to a wait may come
_AWAY_S = 60  # a wait without end goes on for so long without the worker


class Client:
    """url is http://HOST:PORT, https://HOST:PORT or unix:/PATH; token the worker's, or a peer token."""

    def __init__(self, url: str = "http://127.0.0.1:9300", token: str | None = None, timeout: float = 30,
                 tls: ssl.SSLContext | None = None) -> None:
        self.url = url.rstrip("/")
        if "@" in url and not url.startswith("unix:"):  # no text repeats a password
            raise ValueError("the URL of a worker has no user or password: give a token")
        if token and not all("!" <= character <= "~" for character in token):
            raise ValueError("the token has a character that no token has, as a line break has: give token.strip()")
        self._http = Http(self.url, timeout, tls)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    # ---- requests ----

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None,
                timeout: float | None = None, **query: Any) -> Any:
        """One request. A body that is no buffer goes as JSON; the answer is JSON's value, bytes, or None for 204.

        timeout is in seconds, and by default the client's, added to the wait_ms of the query. The request goes again
        until then where a gateway in front of the worker answers 502, 503 or 504, and a few times where the connection is
        refused (until then with wait_ms).
        """
        return self._call(method, path, body, headers, timeout, None, query)

    def _call(self, method: str, path: str, body: Any, headers: dict[str, str] | None, timeout: float | None,
              until: float | None, query: dict[str, Any], away: float = math.inf) -> Any:
        """until is when the caller gives up; None is at the end of the timeout."""
        given = {name: value for name, value in query.items() if value is not None}
        if timeout is None:
            timeout = self._http.timeout + given.get("wait_ms", 0) / 1000
        sent = dict(self._headers, **(headers or {}))
        if body is not None and not isinstance(body, (bytes, bytearray, memoryview, mmap.mmap)):
            body = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        if method == "POST":  # so that it can be sent again
            sent.setdefault("Idempotency-Key", uuid.uuid4().hex)
        if until is None:
            until = time.monotonic() + timeout
        answer = self._http.send(method, path, body, sent, given, timeout, until, away)
        if answer.again and method == "DELETE" and answer.status in (404, 410):  # the first one may have done it
            return None
        return self._http.value(answer)

    def _wait(self, path: str, end: float | None, away: float, **query: Any) -> Any:
        """A GET that waits for as long as one request may, and no longer than until end, or for away seconds without the
        worker."""
        wait_s, now = self._http.wait_ms / 1000, time.monotonic()
        timeout = wait_s + self._http.timeout
        if end is not None:
            wait_s, timeout = min(wait_s, end - now), min(timeout, end - now + _LATE_S)
        return self._call("GET", path, None, None, timeout, math.inf if end is None else end,
                          {**query, "wait_ms": max(0, math.ceil(wait_s * 1000))}, away)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # ---- what a worker has ----

    def worker(self) -> dict[str, Any]:
        """Name, version, addresses, …"""
        return self.request("GET", "/v1/worker")

    def limits(self) -> dict[str, Any]:
        """Limits and timeouts: ids_max, wait_ms_max, …"""
        return self.request("GET", "/v1/limits")

    def throughput(self) -> dict[str, Any]:
        """Bytes received and sent in each of the last five minutes' seconds, from since on."""
        return self.request("GET", "/v1/throughput")

    def devices(self) -> dict[str, Any]:
        """Memory devices, RDMA devices, transports."""
        return self.request("GET", "/v1/devices")

    def peers(self) -> Iterator[dict[str, Any]]:
        """Other workers that it is connected to, by what, and why not by something better."""
        return self._pages("/v1/peers", "peers")

    def events(self, after: str | None = None, label: str | None = None,
               follow: bool = False) -> Iterator[dict[str, Any]]:
        """What happened after the event of that id, from the oldest that the worker keeps; of operations with the label.
        With follow it goes on, and waits for what happens. A gap is an event of type "missed", with how many."""
        while True:
            if follow and after:
                page = self._wait("/v1/events", None, _AWAY_S, after=after, label=label)
            else:
                page = self.request("GET", "/v1/events", after=after, label=label)
            if page.get("missed"):
                yield {"type": "missed", "missed": page["missed"]}
            yield from page["events"]
            after = page["next"]
            if not follow and not page["events"]:
                return

    def connect(self, url: str) -> dict[str, Any]:
        """Connects it to the worker at url, before the first transfer needs that."""
        return self.request("POST", "/v1/peers", {"url": url})

    def region(self, size: int, name: str | None = None, **fields: Unpack[RegionFields]) -> Region:
        """Makes a region of zeros. fields: idle_ms, after which without use the worker deletes it; sealed, …"""
        body: dict[str, Any] = {"size": size, **fields}
        if name:
            body["name"] = name
        return Region(self, self.request("POST", "/v1/regions", body, timeout=self._http.timeout + size / 1e8))

    def find_region(self, id: str) -> Region:
        return Region(self, self.request("GET", f"/v1/regions/{id}"))

    def regions(self) -> Iterator[Region]:
        for one in self._pages("/v1/regions", "regions"):
            yield Region(self, one)

    def operations(self, **query: Unpack[OperationFilters]) -> Iterator[Operation]:
        """kind="read", status="IN_PROGRESS", …"""
        for one in self._pages("/v1/operations", "operations", **query):
            yield Operation(self, one)

    def _pages(self, path: str, list_name: str, **query: Any) -> Iterator[dict[str, Any]]:
        after = None
        while True:
            page = self.request("GET", path, after=after, **query)
            yield from page[list_name]
            after = page.get("next")
            if not after:
                return

    # ---- operations ----

    def offer(self, *memory: Memory, writable: bool = False, **fields: Unpack[OfferFields]) -> Operation:
        """Offers memory to one read of a peer, or with writable to one write. fields: ttl_ms, renew_max_ms, uses, label,
        …; follow, a read of this worker that fills the memory: what has arrived is served while it runs."""
        return self._create("writable" if writable else "readable", memory, dict(fields), include="metadata")

    def read(self, memory: Union[Memory, list[Memory]], remote: Remote, **fields: Unpack[BeginFields]) -> Operation:
        """Reads what remote offers into memory: an Operation of another Client, its metadata, or their URL. fields:
        timeout_ms, verify, label, …; layout="stream", where only the totals are equal; relay, where offers will follow
        it; parts=[(offset, size), …], the parts of the offer to read, "remote" in REST."""
        return self._begin("read", memory, remote, dict(fields))

    def write(self, memory: Union[Memory, list[Memory]], remote: Remote, **fields: Unpack[BeginFields]) -> Operation:
        """Writes memory into what remote offers. fields as of read, but relay."""
        return self._begin("write", memory, remote, dict(fields))

    def _begin(self, kind: str, memory: Any, remote: Remote, fields: dict[str, Any]) -> Operation:
        if isinstance(remote, Operation):
            remote = remote.metadata
        fields["remote_url" if isinstance(remote, str) else "remote_metadata"] = remote
        parts = fields.pop("parts", None)
        if parts is not None:
            fields["remote"] = [{"offset": offset, "size": size} for offset, size in parts]
        return self._create(kind, memory if isinstance(memory, list) else [memory], fields)

    def _create(self, kind: str, memory: Any, fields: dict[str, Any], **query: Any) -> Operation:
        if isinstance(fields.get("follow"), Operation):
            fields["follow"] = fields["follow"].id
        given = {name: value for name, value in fields.items() if value is not None}
        body = {"kind": kind, "descriptors": [_descriptor(one) for one in memory], **given}
        return Operation(self, self.request("POST", "/v1/operations", body, **query))

    def decline(self, metadata: Any) -> str:
        """As ferry.decline, through this worker, which reaches the other one by its link or over HTTP."""
        return self._tell("decline", metadata, {})["status"]

    def renew(self, metadata: Any, ttl_ms: int | None = None) -> str:
        """As ferry.renew, through this worker."""
        return self._tell("renew", metadata, {} if ttl_ms is None else {"ttl_ms": ttl_ms})["expires_at"]

    def _tell(self, verb: str, metadata: Any, fields: dict[str, Any]) -> dict[str, Any]:
        return self.request("POST", f"/v1/operations/{verb}", {"remote_metadata": metadata_value(metadata), **fields},
                            headers={"Ferry-Transfer": "xfr_" + uuid.uuid4().hex[:16]})

    def find_operation(self, id: str) -> Operation:
        return Operation(self, self.request("GET", f"/v1/operations/{id}"))


class Region:
    """Memory of a worker."""

    def __init__(self, client: Client, body: dict[str, Any]) -> None:
        self.client = client
        self.body = body
        self.id: str = body["id"]
        self.size: int = body["size"]
        self.device: str = body["device"]
        self.name: str = body.get("name", "")
        self.path: str = body.get("path", "")
        self.sealed: bool = body.get("sealed", False)

    def slice(self, offset: int, size: int, **shape: Unpack[Row]) -> dict[str, Any]:
        """A part of it, for offer, read and write; with count= and stride= a row, with blocks=[…] blocks."""
        return {"region": self.id, "offset": offset, "size": size, **shape}

    def read(self, offset: int = 0, size: int | None = None) -> bytes:
        """Content, by HTTP: size bytes, or what there is from offset on."""
        end = self.size if size is None else offset + size
        if not 0 <= offset <= end <= self.size:
            raise ValueError(f"no {'content' if size is None else f'{size} bytes'} at {offset} in a region of {self.size}")
        if end == offset:
            return b""
        return self.client.request("GET", f"/v1/regions/{self.id}/content",
                                    headers={"Range": f"bytes={offset}-{end - 1}"})

    def write(self, data: Any, offset: int = 0) -> None:
        """Content, by HTTP."""
        self.client.request("PUT", f"/v1/regions/{self.id}/content", buffer_view(data).cast("B"), offset=offset)

    def _map(self, access: int) -> mmap.mmap | None:
        """None where the worker is elsewhere, or of another user."""
        if not self.path:
            return None
        try:
            fd = os.open(self.path, os.O_RDWR if access == mmap.ACCESS_WRITE else os.O_RDONLY)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            # The path is the worker's word; another machine's process may have that number here.
            if not stat.S_ISREG(status.st_mode) or status.st_size < self.size or \
                    os.readlink(self.path) != f"/memfd:ferry-region:{self.id} (deleted)":
                return None
            return mmap.mmap(fd, self.size, access=access)
        except (OSError, ValueError):
            return None
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def buffer(self, writable: bool = True) -> Iterator[memoryview]:
        """The content as a memoryview: mapped where this worker is local, else a copy that is stored at the end."""
        mapped = self._map(mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ) if self.client._http.is_local() else None
        if mapped is not None:
            view = memoryview(mapped)
            try:
                yield view
            finally:
                view.release()
                with contextlib.suppress(BufferError):  # an array of numpy may still look at it
                    mapped.close()
            return
        copy = bytearray(self.read())
        view = memoryview(copy) if writable else memoryview(copy).toreadonly()
        try:
            yield view
        finally:
            view.release()
        if writable:
            self.write(copy)

    def delete(self) -> None:
        self.client.request("DELETE", f"/v1/regions/{self.id}")

    def __repr__(self) -> str:
        return f"Region({self.id}, {self.size} bytes)"


class Operation:
    """An operation of a worker, as it was when last asked for."""

    def __init__(self, client: Client, body: dict[str, Any]) -> None:
        self._client = client
        self._metadata: dict[str, Any] | None = body.pop("metadata", None)
        self.body = body
        self.id: str = body["id"]

    @property
    def kind(self) -> str:
        return self.body["kind"]

    @property
    def status(self) -> str:
        return self.body["status"]

    @property
    def done(self) -> bool:
        return self.body["done"]

    @property
    def transport(self) -> str:
        return self.body.get("transport", "")

    @property
    def metadata(self) -> dict[str, Any]:
        """What a peer needs: a secret."""
        if self._metadata is None:
            self._metadata = self._client.request("GET", f"/v1/operations/{self.id}/metadata")
        return self._metadata

    @property
    def metadata_url(self) -> str:
        """The same by reference, for a worker that may fetch it (--allow-peer, and this worker's token policy)."""
        return f"{self._client.url}/v1/operations/{self.id}/metadata"

    def refresh(self, wait_ms: int | None = None) -> Operation:
        self.body = self._client.request("GET", f"/v1/operations/{self.id}", wait_ms=wait_ms)
        return self

    def wait(self, timeout: float | None = None) -> Operation:
        """Returns once it is COMPLETE. Raises OperationFailed, or TimeoutError after so many seconds. Goes on while
        connections are refused or end, or a gateway in front of the worker answers 502, 503 or 504: until then, or for a
        minute of nothing else."""
        return self._wait(timeout, _AWAY_S if timeout is None else math.inf)

    def _wait(self, timeout: float | None, away: float) -> Operation:
        end = None if timeout is None else time.monotonic() + timeout
        while not self.done:
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"{self.id} is {self.status} after {timeout} s")
            self.body = self._client._wait(f"/v1/operations/{self.id}", end, away)
        if self.status != "COMPLETE":
            error = self.body.get("error", {})
            raise OperationFailed(error.get("code", "internal"), error.get("detail", ""), self.status)
        return self

    def cancel(self) -> Operation:
        self.body = self._client.request("POST", f"/v1/operations/{self.id}/cancel")
        return self

    def delete(self) -> None:
        """Cancels and forgets it."""
        self._client.request("DELETE", f"/v1/operations/{self.id}")

    def __enter__(self) -> Operation:
        return self

    def __exit__(self, *_: Any) -> None:
        if not self.done:
            with contextlib.suppress(FerryError):
                self.delete()

    def __repr__(self) -> str:
        return f"Operation({self.id}, {self.kind}, {self.status})"


Memory = Union[Region, dict[str, Any]]  # a Region, or what its slice() gives
Remote = Union[Operation, dict[str, Any], str]  # of another Client, metadata, or a URL of them


def _descriptor(memory: Memory) -> dict[str, Any]:
    return {"region": memory.id} if isinstance(memory, Region) else memory
