# SPDX-License-Identifier: Apache-2.0
"""One region's bytes to many workers, by a chain: each reads from the one before it, while that still reads."""
from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Union

from .client import Client, Operation, Region
from .errors import FerryError, OperationFailed

_TRIES = 3
_END_S = 30
_AWAY_S = 5  # for a worker that restarts; it then has neither region nor operation


def _end(operation: Operation | None) -> None:
    """Cancels it, and waits until it is quiet."""
    if operation is not None:
        with contextlib.suppress(FerryError, OSError):
            operation.cancel().wait(_END_S)


class _Member:
    """A worker of the chain."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.region: Region | None = None
        self.offer: Operation | None = None  # of the one before …
        self.read: Operation | None = None  # … and the read of it
        self.prefix = 0  # bytes from the start on that are in place
        self.done = False
        self.strikes = 0
        self.fault: Exception | None = None

    def open(self, size: int, name: str | None) -> None:
        try:
            self.region = self.client.region(size, name)
        except (FerryError, OSError) as fault:
            self.fault = fault

    def begin(self, start: int, **fields: bool) -> bool:
        assert self.region is not None and self.offer is not None
        try:
            self.read = self.client.read(self.region.slice(start, self.region.size - start), self.offer, **fields)
        except (FerryError, OSError) as fault:
            self.fault = fault
            _end(self.offer)
        return self.fault is None

    def finish(self, start: int, end: float | None) -> None:
        """Waits for what has been begun."""
        if self.read is None:
            return
        try:
            self.read._wait(None if end is None else max(end - time.monotonic(), 0), _AWAY_S)
            self.done = True
        except OperationFailed as fault:
            came = self.read.body.get("bytes_prefix", 0)
            self.prefix = start + came
            self.strikes = 0 if came else self.strikes + 1
            self.fault = fault if self.strikes == _TRIES else None
        except (FerryError, OSError) as fault:
            if end is not None and time.monotonic() >= end:
                raise
            self.fault = fault
        if not self.done:
            _end(self.offer)
        self.read = None

    def undo(self) -> None:
        _end(self.read)
        _end(self.offer)
        if self.region is not None:
            with contextlib.suppress(FerryError, OSError):
                self.region.delete()


def _begin(source: Region, members: list[_Member]) -> int:
    """Starts what is missing, as a chain from the source. Returns from which byte on."""
    start = min(one.prefix for one in members)
    before, follow = source, None
    for member in members:
        try:
            member.offer = before.client.offer(before.slice(start, before.size - start), follow=follow)
        except (FerryError, OSError):
            if before is source:
                raise
            break  # the read before it has failed: the others are for the next time
        if member.begin(start, relay=member is not members[-1]):
            assert member.region is not None
            before, follow = member.region, member.read
    return start


def spread(source: Region, clients: Sequence[Client], name: str | None = None,
           timeout: float | None = None) -> list[Union[Region, Exception]]:
    """Brings source to a new region of each worker, in about the time of one. The result has, for each of clients, the
    region, or why the worker was left out: the others go on without it. Raises what keeps everybody from it (the source
    does not answer, TimeoutError, KeyboardInterrupt); no region is left behind then."""
    members = [_Member(one) for one in clients]
    end = None if timeout is None else time.monotonic() + timeout
    try:
        for member in members:
            member.open(source.size, name)
        while missing := [one for one in members if not one.done and not one.fault]:
            start = _begin(source, missing)
            for member in missing:
                member.finish(start, end)
    except BaseException:
        for member in reversed(members):
            member.undo()
        raise
    for member in members:
        if member.fault:
            member.undo()
    return [one.fault or one.region for one in members]  # type: ignore[misc]
