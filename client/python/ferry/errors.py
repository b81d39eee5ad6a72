# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, for all of the package."""
from __future__ import annotations


class FerryError(RuntimeError):
    """A worker refused something, or an operation failed.

    code is stable ("peer-lost", "region-in-use", …; openapi.yaml lists them), detail a sentence for people, status the
    HTTP status where there was one, retryable whether the same may succeed later.
    """

    def __init__(self, code: str, detail: str, status: int = 0, retryable: bool = False) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail
        self.status = status
        self.retryable = retryable


class OperationFailed(FerryError):
    """An operation ended, but not as COMPLETE; status_name is "ERRORED" or "CANCELLED"."""

    def __init__(self, code: str, detail: str, status_name: str = "ERRORED") -> None:
        super().__init__(code, detail)
        self.status_name = status_name
