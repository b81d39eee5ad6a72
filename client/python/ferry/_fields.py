# SPDX-License-Identifier: Apache-2.0
"""The fields that calls take by name, for type checkers: those of the REST interface. None leaves one out."""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, Optional, TypedDict, Union

if TYPE_CHECKING:
    from . import client, worker

Kind = Literal["readable", "read", "writable", "write"]
Status = Literal["UNINITIALIZED", "INITIALIZED", "IN_PROGRESS", "COMPLETE", "CANCELLED", "ERRORED"]
Transport = Literal["shm", "tcp", "rdma", "http", "https"]


class AnyFields(TypedDict, total=False):
    layout: Optional[Literal["pairwise", "stream"]]
    label: Optional[str]


class OfferFields(AnyFields, total=False):
    uses: Optional[int]
    unlimited: Optional[bool]
    readers: Optional[int]
    follow: Union[str, client.Operation, worker.Operation, None]
    ttl_ms: Optional[int]
    renew_max_ms: Optional[int]


class ActiveFields(AnyFields, total=False):
    """Of a read or a write; relay of a read alone."""

    timeout_ms: Optional[int]
    verify: Optional[bool]
    relay: Optional[bool]
    transports: Optional[list[Transport]]


class RequestFields(OfferFields, ActiveFields, total=False):
    """Of an operation whose kind is an argument."""


class CreateFields(RequestFields, total=False):
    parts: Optional[Iterable[tuple[int, int]]]


class BeginFields(ActiveFields, total=False):
    parts: Optional[Iterable[tuple[int, int]]]


class RegionFields(TypedDict, total=False):
    device: Optional[str]
    sealed: Optional[bool]
    idle_ms: Optional[int]


class OperationFilters(TypedDict, total=False):
    done: Optional[bool]
    region: Optional[str]
    label: Optional[str]
    order: Optional[Literal["oldest", "newest", "asc", "desc"]]
    kind: Optional[Kind]
    status: Optional[Status]
    limit: Optional[int]
    ids: Optional[str]
    wait_for: Optional[Literal["all", "any"]]
    wait_ms: Optional[int]


class Row(TypedDict, total=False):
    """The shape of a slice: count pieces, each stride after the one before, or the pieces of these numbers."""

    count: int
    stride: int
    blocks: list[int]
