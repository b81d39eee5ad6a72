# SPDX-License-Identifier: Apache-2.0
"""kv_transfer_params: what a prefill says to a decode, and what of it is believed.

The parameters travel in answers and requests, through proxies and the hands of clients, who may have edited them. What
counts is therefore in the offer itself: its first bytes, the seal, come from the prefill's memory with the KV, and say of
which prompt, kind of cache, rank and layers it is. The parameters say the same, for a refusal before anything is read.
Who runs a Ferry worker that a decode may reach could make both: with a key file (key_file in kv_connector_extra_config,
the same on both sides) only a prefill that has it can make parameters.
"""
from __future__ import annotations

import hashlib
import hmac
import json
from array import array
from dataclasses import dataclass
from typing import Any

from ..offer import blob_text

VERSION = 1
SEAL_SIZE = 32
MAX_RANKS = 256
MAX_PARTS = 64  # offers of one rank
MAX_METADATA = 4096  # bytes of one offer's; Ferry's own have about 600
MAX_TTL_MS = 24 * 3600 * 1000
MAX_SHOWN = 60  # of a foreign text, in a sentence
_METADATA_KEYS = {"descriptors", "nixl_metadata", "notification_key", "operation_kind"}


class Refused(Exception):
    """Parameters that are not believed. The text is a sentence for an operator's log.

    metadata are those of offers that the request could decline all the same, because it has their keys.
    """

    metadata: tuple[str, ...] = ()


@dataclass(frozen=True)
class Handover:
    """A prefill's offer of the KV of its prompt's first tokens."""

    tokens: int
    ttl_ms: int  # after which the offers end, unless they are renewed
    ranks: list[list[str]]  # of each rank, the metadata of its offers, each of several layers
    subject: str = ""  # what the seals of the offers must be of

    @property
    def metadata(self) -> tuple[str, ...]:
        return tuple(text for parts in self.ranks for text in parts)


def read_key(path: str | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        key = file.read().strip()
    if len(key) < 16:
        raise ValueError(f"key_file: {path} has {len(key)} bytes, and a key needs at least 16")
    return key


def prompt_digest(request: Any, tokens: int) -> str | None:
    """Of what the KV of the first tokens of a request depends on; None where that is more than token ids."""
    ids = request.prompt_token_ids
    if ids is None or tokens > len(ids) or request.prompt_embeds is not None:
        return None
    digest = hashlib.sha256(array("q", ids[:tokens]).tobytes())
    extra: list[Any] = [getattr(request.lora_request, "lora_name", None)]
    for feature in request.mm_features or ():
        position = feature.mm_position
        if position.offset < tokens:
            extra.append([feature.identifier, position.offset, position.length])
    digest.update(json.dumps(extra).encode())
    return digest.hexdigest()


def subject(cache: dict[str, Any], tokens: int, digest: str) -> str:
    """Of what the KV is, for seals."""
    return hashlib.sha256(json.dumps([VERSION, cache, tokens, digest], sort_keys=True).encode()).hexdigest()


def seal(of: str, rank: int, ranks: int, part: int, parts: int) -> bytes:
    """The first SEAL_SIZE bytes of an offer: its subject, and which of the ranks and of their parts it is."""
    return hashlib.sha256(f"{of} {rank}/{ranks} {part}/{parts}".encode()).digest()


def _signature(ferry: dict[str, Any], key: bytes) -> str:
    signed = {name: value for name, value in ferry.items() if name != "signature"}
    return hmac.new(key, json.dumps(signed, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def make(cache: dict[str, Any], digest: str, made: Handover, key: bytes | None) -> dict[str, Any]:
    """The value of "ferry" in kv_transfer_params."""
    ferry = {"version": VERSION, "cache": cache, "tokens": made.tokens, "prompt": digest, "ttl_ms": made.ttl_ms,
             "ranks": made.ranks}
    if key is not None:
        ferry["signature"] = _signature(ferry, key)
    return ferry


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _check_cache(theirs: Any, ours: dict[str, Any]) -> None:
    if not isinstance(theirs, dict):
        raise Refused("the description of the prefill's KV cache is missing")
    for name, value in ours.items():
        if theirs.get(name) != value or type(theirs.get(name)) is not type(value):
            raise Refused(f"the {name} of the prefill is {_shown(theirs.get(name))}, and here it is {_shown(value)}")


def _check_metadata(text: Any, signed: bool) -> None:
    if not isinstance(text, str) or len(text) > MAX_METADATA:
        raise Refused("the metadata of an offer are not a short text")
    try:
        document = json.loads(text)
        url = json.loads(blob_text(document["nixl_metadata"]))["http"]
    except (ValueError, RecursionError, LookupError, TypeError):
        document = None
    # Ferry also takes the URL of metadata.
    if not isinstance(document, dict) or document.keys() != _METADATA_KEYS or document["operation_kind"] != 1:
        raise Refused("the metadata of an offer are not those of a Ferry readable")
    # A worker reads, declines and renews over HTTP where nothing else connects it, at any path of this host.
    if url and not signed:
        raise Refused("the metadata of an offer name a URL, which only a prefill with the same key_file may choose: leave "
                      "out \"listen\" of its worker, or set key_file on both sides")


def _check_ranks(ranks: Any, signed: bool) -> None:
    if not isinstance(ranks, list) or not 0 < len(ranks) <= MAX_RANKS:
        raise Refused("the offers of the prefill's ranks are missing")
    for parts in ranks:
        if not isinstance(parts, list) or len(parts) != len(ranks[0]) or not 0 < len(parts) <= MAX_PARTS:
            raise Refused("the offers of the prefill's ranks are not as many for each rank")
        for text in parts:
            _check_metadata(text, signed)


def parse(params: dict[str, Any], request: Any, cache: dict[str, Any], key: bytes | None) -> Handover:
    """What kv_transfer_params with do_remote_prefill hand over to this request. Raises Refused.

    Whoever reaches vLLM's API chooses params: every type and range is checked before it is used.
    """
    ferry = params.get("ferry")
    if ferry is None:
        raise Refused("they are not of a FerryConnector")
    if not isinstance(ferry, dict):
        raise Refused("\"ferry\" in them is no object")
    if ferry.get("version") != VERSION or type(ferry["version"]) is not int:
        raise Refused(f"the prefill's FerryConnector speaks version {_shown(ferry.get('version'))}, and this one {VERSION}")
    _check_ranks(ferry.get("ranks"), key is not None)
    if key is not None:
        given = ferry.get("signature")
        try:
            expected = _signature(ferry, key)
        except (TypeError, ValueError, RecursionError):
            expected = ""
        if not isinstance(given, str) or not hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
            raise Refused("no prefill with this key_file has signed them")
    try:
        return _check_subject(ferry, request, cache)
    except Refused as refused:
        refused.metadata = tuple(text for parts in ferry["ranks"] for text in parts)
        raise


def _check_subject(ferry: dict[str, Any], request: Any, cache: dict[str, Any]) -> Handover:
    _check_cache(ferry.get("cache"), cache)
    tokens = ferry.get("tokens")
    if type(tokens) is not int or not 0 < tokens <= request.num_prompt_tokens:
        raise Refused(f"they are of a prompt of {_shown(tokens)} tokens, and this one has {request.num_prompt_tokens}")
    digest = prompt_digest(request, tokens)
    if digest is None or ferry.get("prompt") != digest:
        raise Refused("they are of another prompt")
    ttl_ms = ferry.get("ttl_ms")
    if type(ttl_ms) is not int or not 0 < ttl_ms <= MAX_TTL_MS:
        raise Refused("their time to live is no number of milliseconds")
    return Handover(tokens, ttl_ms, ferry["ranks"], subject(cache, tokens, digest))
