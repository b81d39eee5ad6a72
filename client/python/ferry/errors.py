# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, for all of the package."""
from __future__ import annotations

import functools
from typing import Any


class FerryError(RuntimeError):
    """A worker refused something or does not answer, or an operation failed.

    code is stable ("peer-lost", "region-in-use", …; openapi.yaml lists them), detail a sentence for people, status the
    HTTP status where there was one, retryable whether the same may succeed later.
    """

    def __init__(self, code: str, detail: str, status: int = 0, retryable: bool = False) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail
        self.status = status
        self.retryable = retryable

    def __reduce__(self) -> Any:
        return type(self), (self.code, self.detail, self.status, self.retryable)


class OperationFailed(FerryError):
    """An operation ended, but not as COMPLETE; status_name is "ERRORED" or "CANCELLED"."""

    def __init__(self, code: str, detail: str, status_name: str = "ERRORED") -> None:
        super().__init__(code, detail)
        self.status_name = status_name

    def __reduce__(self) -> Any:
        return type(self), (self.code, self.detail, self.status_name)


class Unreachable(FerryError, OSError):
    """No worker answers at a URL: code is "unreachable".

    Each is also an OSError of the kind that was the cause: ConnectionRefusedError, TimeoutError, socket.gaierror,
    ssl.SSLCertVerificationError, …
    """

    _cause: type[OSError]

    @classmethod
    def of(cls, cause: OSError, detail: str, status: int = 0) -> Unreachable:
        return _unreachable(type(cause), cause.errno, cause.strerror, detail, status)

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> Any:
        return _unreachable, (self._cause, self.errno, self.strerror, self.detail, self.status)


@functools.lru_cache(maxsize=None)
def _kind(cause: type[OSError]) -> type[Unreachable]:
    return type(cause.__name__, (Unreachable, cause), {"_cause": cause})


def _unreachable(cause: type[OSError], number: Any, text: Any, detail: str, status: int) -> Unreachable:
    made = _kind(cause)("unreachable", detail, status, issubclass(cause, (ConnectionError, TimeoutError)))
    made.errno, made.strerror = number, text
    return made
