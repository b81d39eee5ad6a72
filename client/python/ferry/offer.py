# SPDX-License-Identifier: Apache-2.0
"""What the holder of an offer's metadata says to the worker that made it, without a worker of its own.

    ferry.decline(metadata)                 # nobody will read it: its memory is free at once
    ferry.renew(metadata, ttl_ms=60_000)    # it will be read later

Both are one request to the URL that the metadata name. A program that has the metadata from strangers asks its own
worker instead, which reaches allowed peers only: Worker.decline and Worker.renew, Client.decline and Client.renew. In
asyncio: await asyncio.to_thread(ferry.decline, metadata).
"""
from __future__ import annotations

import base64
import json
import re
import secrets
import ssl
import time
import zlib
from typing import Any, Union

from ._http import Http
from .errors import FerryError

_BLOB_MAX = 1 << 16  # of the text in nixl_metadata, many times what a worker writes

Metadata = Union[str, bytes, dict[str, Any], Any]  # JSON, or its value, or what has it as metadata or model_dump()


def metadata_value(metadata: Metadata) -> dict[str, Any]:
    """The JSON value of what may be metadata."""
    value = metadata
    if isinstance(value, (str, bytes)):
        try:
            value = json.loads(value)
        except ValueError:
            raise FerryError("invalid-metadata", "the metadata are not JSON") from None
    elif hasattr(value, "model_dump"):
        value = value.model_dump()
    elif not isinstance(value, dict) and hasattr(value, "metadata"):
        return metadata_value(value.metadata() if callable(value.metadata) else value.metadata)
    if not isinstance(value, dict):
        raise FerryError("invalid-metadata", "the metadata are not a JSON object")
    return value


def blob_text(blob: Union[bytes, str]) -> bytes:
    """What nixl_metadata has inside, base64 or, as upstream also writes it, hexadecimal. Raises ValueError."""
    if isinstance(blob, str):
        blob = base64.b64decode(blob[4:], validate=True) if blob.startswith("b64:") else bytes.fromhex(blob)
    try:
        return zlib.decompressobj().decompress(blob, _BLOB_MAX)
    except zlib.error as error:
        raise ValueError(str(error)) from None


def _blob(value: dict[str, Any]) -> dict[str, Any]:
    """The part of the metadata that names the worker."""
    text = value.get("nixl_metadata")
    try:
        if not isinstance(text, str):
            raise ValueError
        blob = json.loads(blob_text(text))
        if not isinstance(blob, dict) or not isinstance(blob.get("http"), str) or \
                not re.fullmatch("[0-9a-f]{16}", str(blob.get("operation"))):
            raise ValueError
    except ValueError:
        raise FerryError("invalid-metadata", "the metadata are not those of a Ferry worker") from None
    return blob


def _tell(metadata: Metadata, verb: str, body: Any, headers: dict[str, str], timeout: float,
          tls: ssl.SSLContext | None) -> dict[str, Any]:
    value = metadata_value(metadata)
    blob, key = _blob(value), value.get("notification_key")
    if not isinstance(key, str) or not key.isascii() or not key.isprintable():
        raise FerryError("invalid-metadata", "the metadata have no notification_key")
    if not blob["http"]:
        raise FerryError("peer-unreachable", "the worker of the offer serves no HTTP: ask a worker that reaches it, by "
                         f"Worker.{verb}")
    try:
        http = Http(blob["http"].rstrip("/"), timeout, tls)
    except ValueError:
        raise FerryError("invalid-metadata", "the metadata name no URL of a worker") from None
    sent = {"Authorization": f"Bearer {key}", **headers}
    text = None
    if body is not None:
        text = json.dumps(body).encode()
        sent["Content-Type"] = "application/json"
    try:
        return http.value(http.send("POST", f"/v1/operations/op_{blob['operation']}/{verb}", text, sent, {}, timeout,
                                    time.monotonic() + timeout))
    finally:
        http.close()


def decline(metadata: Metadata, timeout: float = 10, tls: ssl.SSLContext | None = None) -> str:
    """Says that nobody will use the offer: it ends at once, CANCELLED with "declined". Of one with several uses one is
    taken. One that has ended stays as it is. How it stands then: "CANCELLED", "COMPLETE", …

    FerryError: already-claimed (a peer is moving its bytes, or no use is left), forbidden (not its key), gone, ….
    """
    # Repeated with the same name it declines no second use.
    return _tell(metadata, "decline", None, {"Ferry-Transfer": "xfr_" + secrets.token_hex(8)}, timeout, tls)["status"]


def renew(metadata: Metadata, ttl_ms: int | None = None, timeout: float = 10,
          tls: ssl.SSLContext | None = None) -> str:
    """Asks for more time: the offer expires ttl_ms from now (None: as long as it had at first), but not later than its
    renew_max_ms after its creation, and not sooner than before. When it expires then: "2026-05-04T10:05:00.000Z".

    FerryError: forbidden (not its key, or it has no renew_max_ms), gone, ….
    """
    body = None if ttl_ms is None else {"ttl_ms": ttl_ms}
    return _tell(metadata, "renew", body, {}, timeout, tls)["expires_at"]
