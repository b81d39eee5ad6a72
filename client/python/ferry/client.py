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

Several threads may use one Client, and processes forked from the one that made it. Errors of a worker are FerryError,
of an operation OperationFailed, of the network OSError.
"""
from __future__ import annotations

import contextlib
import http.client
import json
import mmap
import os
import socket
import ssl
import stat
import time
import uuid
from collections.abc import Iterator
from typing import Any, Union
from urllib.parse import urlencode, urlsplit

from ._memory import buffer_view
from .errors import FerryError, OperationFailed

_WAIT_MS = 50_000  # of one request; proxies cut at 60 s
_MARGIN_S = 30


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """url is http://HOST:PORT, https://HOST:PORT or unix:/PATH; token the worker's, or a peer token."""

    def __init__(self, url: str = "http://127.0.0.1:9300", token: str | None = None, timeout: float = 30,
                 tls: ssl.SSLContext | None = None) -> None:
        self.url = url.rstrip("/")
        self._parts = urlsplit(self.url)
        if "@" in url and self._parts.scheme != "unix":  # no text repeats a password
            raise ValueError("the URL of a worker has no user or password: give a token")
        if token and not all("!" <= character <= "~" for character in token):
            raise ValueError("the token has a character that no token has, as a line break has: give token.strip()")
        if self._parts.scheme not in ("http", "https", "unix") or not (self._parts.netloc or self._parts.path):
            raise ValueError(f"{url!r} is not the URL of a worker: http://HOST:PORT, https://HOST:PORT or unix:/PATH")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout
        self._tls = tls
        self._idle: list[http.client.HTTPConnection] = []
        self._pid = os.getpid()

    # ---- requests ----

    def _connect(self) -> http.client.HTTPConnection:
        parts = self._parts
        if parts.scheme == "unix":
            return _UnixConnection(parts.path, self._timeout)
        if parts.scheme == "https":
            return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=self._timeout,
                                               context=self._tls)
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self._timeout)

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str],
              timeout: float) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse, bool]:
        """The last of the three: it was sent more than once."""
        base = "" if self._parts.scheme == "unix" else self._parts.path
        if self._pid != os.getpid():  # those are the parent's
            self._idle, self._pid = [], os.getpid()
        again = False
        while True:
            try:
                connection, fresh = self._idle.pop(), False
            except IndexError:
                connection, fresh = self._connect(), True
            try:
                if connection.sock is not None:
                    connection.sock.settimeout(timeout)
                else:
                    connection.timeout = timeout
                connection.request(method, base + path, body=body, headers=headers)
                return connection, connection.getresponse(), again
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                connection.close()
                if fresh:
                    raise
                again = True
            except BaseException:
                connection.close()
                raise

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Errors of the network are OSError, and name the worker."""
        try:
            yield
        except OSError as error:
            advice = f"does a worker answer at {self.url}?"
            if error.strerror:
                error.strerror += f": {advice}"
            else:
                error.args = (f"{error}: {advice}",)
            raise
        except http.client.HTTPException as error:
            raise ConnectionError(f"{error!r} came instead of a whole answer: is {self.url} a worker's?") from error

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None,
                timeout: float | None = None, **query: Any) -> Any:
        """One request. A body that is no buffer goes as JSON; the answer is JSON's value, bytes, or None for 204."""
        given = {name: value for name, value in query.items() if value is not None}
        if given:
            path += "?" + urlencode(given)
        sent = dict(self._headers, **(headers or {}))
        if body is not None and not isinstance(body, (bytes, bytearray, memoryview, mmap.mmap)):
            body = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        if method == "POST":  # so that it can be sent again where a kept connection has ended
            sent.setdefault("Idempotency-Key", uuid.uuid4().hex)
        with self._naming():
            connection, response, again = self._send(method, path, body, sent, timeout or self._timeout)
            try:
                content = response.read()
            except BaseException:
                connection.close()
                raise
        if response.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        if again and method == "DELETE" and response.status in (404, 410):  # the first one may have done it
            return None
        kind = response.headers.get_content_type()
        try:
            value = json.loads(content) if content and kind.endswith("json") else content
        except ValueError:
            raise FerryError("not-a-worker", f"{self.url} answered what is no JSON: is it the URL of a worker?",
                             response.status) from None
        if response.status >= 400:
            if not isinstance(value, dict):
                raise FerryError("not-a-worker", f"{self.url} answered {response.status} without a problem document: "
                                 "is it the URL of a worker?",
                                 response.status)
            raise FerryError(value.get("code", "internal"), value.get("detail") or value.get("title", ""),
                             response.status, bool(value.get("retryable")))
        return None if response.status == 204 else value

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

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
            timeout = _WAIT_MS / 1000 + _MARGIN_S if follow else None
            page = self.request("GET", "/v1/events", after=after, label=label, timeout=timeout,
                                wait_ms=_WAIT_MS if follow and after else None)
            if page.get("missed"):
                yield {"type": "missed", "missed": page["missed"]}
            yield from page["events"]
            after = page["next"]
            if not follow and not page["events"]:
                return

    def connect(self, url: str) -> dict[str, Any]:
        """Connects it to the worker at url, before the first transfer needs that."""
        return self.request("POST", "/v1/peers", {"url": url})

    def region(self, size: int, name: str | None = None, **fields: Any) -> Region:
        """Makes a region of zeros. fields: idle_ms, after which without use the worker deletes it; sealed, …"""
        body: dict[str, Any] = {"size": size, **fields}
        if name:
            body["name"] = name
        return Region(self, self.request("POST", "/v1/regions", body, timeout=self._timeout + size / 1e8))

    def find_region(self, id: str) -> Region:
        return Region(self, self.request("GET", f"/v1/regions/{id}"))

    def regions(self) -> Iterator[Region]:
        for one in self._pages("/v1/regions", "regions"):
            yield Region(self, one)

    def operations(self, **query: Any) -> Iterator[Operation]:
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

    def offer(self, *memory: Memory, writable: bool = False, **fields: Any) -> Operation:
        """Offers memory to one read of a peer, or with writable to one write. fields: ttl_ms, uses, label, …; follow, a
        read of this worker that fills the memory: what has arrived is served while it runs."""
        return self._create("writable" if writable else "readable", memory, fields, include="metadata")

    def read(self, memory: Union[Memory, list[Memory]], remote: Remote, **fields: Any) -> Operation:
        """Reads what remote offers into memory: an Operation of another Client, its metadata, or their URL. fields:
        timeout_ms, verify, label, …; relay, where offers will follow it."""
        return self._begin("read", memory, remote, fields)

    def write(self, memory: Union[Memory, list[Memory]], remote: Remote, **fields: Any) -> Operation:
        """Writes memory into what remote offers."""
        return self._begin("write", memory, remote, fields)

    def _begin(self, kind: str, memory: Any, remote: Remote, fields: dict[str, Any]) -> Operation:
        if isinstance(remote, Operation):
            remote = remote.metadata
        fields["remote_url" if isinstance(remote, str) else "remote_metadata"] = remote
        return self._create(kind, memory if isinstance(memory, list) else [memory], fields)

    def _create(self, kind: str, memory: Any, fields: dict[str, Any], **query: Any) -> Operation:
        if isinstance(fields.get("follow"), Operation):
            fields["follow"] = fields["follow"].id
        given = {name: value for name, value in fields.items() if value is not None}
        body = {"kind": kind, "descriptors": [_descriptor(one) for one in memory], **given}
        return Operation(self, self.request("POST", "/v1/operations", body, **query))

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

    def slice(self, offset: int, size: int, **shape: Any) -> dict[str, Any]:
        """A part of it, for offer, read and write; with count= and stride= a row, with blocks=[…] blocks."""
        return {"region": self.id, "offset": offset, "size": size, **shape}

    def read(self, offset: int = 0, size: int | None = None) -> bytes:
        """Content, by HTTP."""
        end = self.size if size is None else offset + size
        if offset < 0 or (size or 0) < 0:
            raise ValueError(f"no content has offset {offset} and size {size}")
        if end <= offset:
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
        mapped = self._map(mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ) if self._is_local() else None
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

    def _is_local(self) -> bool:
        """By the address: a path of another machine means nothing here."""
        parts = self.client._parts
        return parts.scheme == "unix" or (parts.hostname or "") in ("localhost", "::1") or \
            (parts.hostname or "").startswith("127.")

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
        timeout = None if wait_ms is None else wait_ms / 1000 + _MARGIN_S
        self.body = self._client.request("GET", f"/v1/operations/{self.id}", timeout=timeout, wait_ms=wait_ms)
        return self

    def wait(self, timeout: float | None = None) -> Operation:
        """Returns once it is COMPLETE. Raises OperationFailed, or TimeoutError after so many seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.done:
            left = _WAIT_MS if end is None else min(_WAIT_MS, int((end - time.monotonic()) * 1000))
            if left <= 0:
                raise TimeoutError(f"{self.id} is {self.status} after {timeout} s")
            self.refresh(left)
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
