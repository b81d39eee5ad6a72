# SPDX-License-Identifier: Apache-2.0
"""Ferry moves memory between processes.

Client        talks to any worker by its URL, with the standard library alone
spread        brings a region to many workers, in about the time of one
decline       says that an offer will not be used, with its metadata alone; renew: that it will be later
Worker        a worker inside this process (libferry-worker): no HTTP, asyncio by a file descriptor
nixl_connect  the API of dynamo.nixl_connect on Worker: `from ferry import nixl_connect`
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .client import Client, Operation, Region
from .errors import FerryError, OperationFailed, Unreachable
from .offer import decline, renew
from .spread import spread

if TYPE_CHECKING:
    from .worker import Worker

__all__ = ["Client", "FerryError", "Operation", "OperationFailed", "Region", "Unreachable", "Worker", "decline", "renew",
           "spread"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Worker":  # at its first use: it loads a library
        from .worker import Worker
        return Worker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
