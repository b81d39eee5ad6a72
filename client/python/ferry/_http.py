# SPDX-License-Identifier: Apache-2.0
"""HTTP to one worker, also through gateways: kept connections, repetition of requests, and what is no worker's answer.
For this package alone.

Every request may be sent again: GET, PUT and DELETE by their nature, POST with an Idempotency-Key.
"""
from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import math
import os
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from .errors import FerryError, Unreachable

_KEEP_S = 30  # a worker keeps an idle connection for longer, what is between may not
_KEEP_MOST = 16
_PROBE_S = 10  # between probes of a connection on which nothing comes
_LONGEST_S = 86_400.0  # of one time limit: more does not fit into what the kernel takes
_PAUSE_FIRST_S, _PAUSE_LONGEST_S = 0.1, 2.0
_WAIT_LEAST_MS = 1000
_GATEWAY = {502: "a gateway does not reach the worker", 503: "a gateway does not reach the worker",
            504: "a gateway has no answer of the worker in time"}
_BUSY = (429, 503)  # of a worker: an operation goes on meanwhile
_ENDED = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)  # the first is also http.client's RemoteDisconnected
_REFUSED = (ConnectionRefusedError, FileNotFoundError)  # nobody listens; the second is of a Unix socket
_REFUSALS = 4  # of a request that is no wait, as libferry bears


class Answer(NamedTuple):
    status: int
    content: bytes
    kind: str  # its media type
    retry_after: str
    again: bool  # the request was sent more than once

    def problem(self) -> dict[str, Any] | None:
        """The problem document of a worker: a gateway's answer has none with a code."""
        if not self.kind.endswith("json"):
            return None
        with contextlib.suppress(ValueError):
            value = json.loads(self.content)
            if isinstance(value, dict) and "code" in value:
                return value
        return None


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _is_late(error: OSError) -> bool:
    """The time limit of the request, not of the kernel."""
    return isinstance(error, socket.timeout) and error.errno is None


def _retry_after_s(text: str) -> float:
    """The seconds or the date of a Retry-After, or 0."""
    if text.isdigit():
        return float(text)
    with contextlib.suppress(TypeError, ValueError):
        return max(0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    return 0


class Http:
    """Several threads may use one, and processes forked from the one that made it."""

    def __init__(self, url: str, timeout: float, tls: ssl.SSLContext | None) -> None:
        self.url = url
        self.timeout = timeout
        self.wait_ms = 50_000  # the longest wait of one request; less once a gateway has ended one
        self.idle: list[tuple[http.client.HTTPConnection, float]] = []  # and since when, the oldest first
        self._parts = urlsplit(url)
        self._base = "" if self._parts.scheme == "unix" else self._parts.path
        self._tls = tls
        self._pid = os.getpid()
        if self._parts.scheme not in ("http", "https", "unix") or not (self._parts.netloc or self._parts.path):
            raise ValueError(f"{url!r} is not the URL of a worker: http://HOST:PORT, https://HOST:PORT or unix:/PATH")

    def is_local(self) -> bool:
        """By the address."""
        host = self._parts.hostname or ""
        return self._parts.scheme == "unix" or host in ("localhost", "::1") or host.startswith("127.")

    def close(self) -> None:
        while self.idle:
            self.idle.pop()[0].close()

    # ---- connections ----

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        parts, least = self._parts, min(timeout, self.timeout)
        connection: http.client.HTTPConnection
        if parts.scheme == "unix":
            connection = _UnixConnection(parts.path, least)
        elif parts.scheme == "https":
            connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=least, context=self._tls)
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=least)
        try:
            connection.connect()
            if parts.scheme != "unix":  # the death of the host ends a wait, and no NAT forgets the connection during one
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
                    if hasattr(socket, name):  # on Linux
                        connection.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _PROBE_S)
        except BaseException:
            connection.close()
            raise
        return connection

    def _kept(self) -> http.client.HTTPConnection | None:
        """The connection that was used last, unless that was long ago."""
        if self._pid != os.getpid():  # those are the parent's
            self.idle, self._pid = [], os.getpid()
        with contextlib.suppress(IndexError):
            connection, since = self.idle.pop()
            if time.monotonic() - since < _KEEP_S:
                return connection
            connection.close()
            self.close()  # the others are older
        return None

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        if len(self.idle) < _KEEP_MOST:
            self.idle.append((connection, time.monotonic()))
        else:
            connection.close()

    # ---- requests ----

    def _exchange(self, method: str, target: str, body: Any, headers: dict[str, str], timeout: float) -> Answer:
        """One answer, whosever. A kept connection that ends before the answer begins is replaced by a new one."""
        kept, again = self._kept(), False
        while True:
            connection = kept or self._connect(timeout)
            response = None
            whole = True
            try:
                connection.sock.settimeout(timeout)
                try:
                    connection.request(method, self._base + target, body=body, headers=headers)
                except _ENDED:
                    whole = False  # an answer may have come nevertheless: a refusal waits for no body
                response = connection.getresponse()
                content = response.read()
            except BaseException as error:
                connection.close()
                if kept is None or response is not None or not isinstance(error, OSError) or _is_late(error):
                    raise
                self.close()  # what ended this one has ended the others
                kept, again = None, True
                continue
            if response.will_close or not whole:
                connection.close()
            else:
                self._keep(connection)
            return Answer(response.status, content, response.headers.get_content_type(),
                          response.headers.get("Retry-After", ""), again)

    def _shorten(self, query: dict[str, Any], left_s: float, ended: bool) -> None:
        """A wait that was ended by a gateway's time limit goes again with half of it."""
        if ended and query["wait_ms"] > _WAIT_LEAST_MS:
            self.wait_ms = min(self.wait_ms, max(_WAIT_LEAST_MS, query["wait_ms"] // 2))
        query["wait_ms"] = min(query["wait_ms"], self.wait_ms, int(left_s * 1000))

    @staticmethod
    def _goes_on(answer: Answer, waits: bool) -> str:
        """What is wrong for the time being, or nothing."""
        if answer.status not in _GATEWAY and answer.status not in _BUSY:
            return ""
        problem = answer.problem()
        if problem:
            why = problem.get("detail") or problem["code"] if waits and answer.status in _BUSY else ""
        else:
            why = _GATEWAY.get(answer.status, "")
        return f"answers {answer.status}: {why}" if why else ""

    def send(self, method: str, path: str, body: Any, headers: dict[str, str], query: dict[str, Any], timeout: float,
             until: float, away: float = math.inf) -> Answer:
        """The answer of a worker. Where a gateway answers for it with 502, 503 or 504, the request goes again, after
        pauses that grow, until the monotonic time until, or for away seconds of nothing else. A wait also goes on where
        the worker itself is busy and where connections are refused, and one that ends without an answer counts as 504.
        Other requests bear a refused connection a few times."""
        pause, again, waits, refusals = _PAUSE_FIRST_S, False, "wait_ms" in query, 0
        while True:
            target = path + "?" + urlencode(query) if query else path
            status, asked = 0, 0.0
            try:
                answer = self._exchange(method, target, body, headers, min(timeout, _LONGEST_S))
                status, asked, why = answer.status, _retry_after_s(answer.retry_after), self._goes_on(answer, waits)
                ended = status == 504
                again |= answer.again
                if not why:
                    return answer._replace(again=again)
            except OSError as error:
                refused, ended = isinstance(error, _REFUSED), waits and isinstance(error, _ENDED)
                refusals += refused
                last = not waits and (refusals > _REFUSALS or time.monotonic() + pause >= until)
                if last or not (refused or ended):
                    raise self._named(error) from error
                why = "refuses connections" if refused else "ends connections without an answer"
            except http.client.HTTPException as error:
                raise Unreachable.of(ConnectionError(), f"{error!r} came instead of a whole answer: is {self.url} a "
                                     "worker's?") from error
            until, away = min(until, time.monotonic() + away), math.inf
            wait = asked or pause
            left = until - time.monotonic() - wait
            if left <= 0:
                raise Unreachable.of(TimeoutError(), f"{self.url} {why}", status)
            time.sleep(wait)
            if waits:
                self._shorten(query, left, ended)
            pause, again = min(2 * pause, _PAUSE_LONGEST_S), True

    def _named(self, error: OSError) -> Unreachable:
        why = f"{error.strerror or error or type(error).__name__}: does a worker answer at {self.url}?"
        return Unreachable.of(TimeoutError() if _is_late(error) else error, why)  # which socket.timeout is from 3.10 on

    def value(self, answer: Answer) -> Any:
        """JSON's value, bytes, or None for 204. Raises FerryError where the answer is a refusal, or no worker's."""
        if answer.status >= 400:
            problem = answer.problem()
            if problem:
                raise FerryError(problem["code"], problem.get("detail") or problem.get("title", ""), answer.status,
                                 bool(problem.get("retryable")))
            if answer.status == 413:
                raise FerryError("too-large", f"a gateway at {self.url} takes no body of that size (nginx: "
                                 "client_max_body_size)", 413)
            raise FerryError("not-a-worker", f"{self.url} answered {answer.status} without a problem document: is it "
                             "the URL of a worker?", answer.status)
        if answer.status == 204:
            return None
        if not answer.content or not answer.kind.endswith("json"):
            return answer.content
        try:
            return json.loads(answer.content)
        except ValueError:
            raise FerryError("not-a-worker", f"{self.url} answered what is no JSON: is it the URL of a worker?",
                             answer.status) from None
