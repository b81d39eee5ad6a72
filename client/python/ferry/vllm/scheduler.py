# SPDX-License-Identifier: Apache-2.0
"""The scheduler's side: which requests are offered, loaded and dropped. Its one thread calls every method.

A prefill (do_remote_decode): the step that computes the last tokens of the prompt has the ranks offer its blocks; the
metadata come back with the output of that step, and leave with the answer as kv_transfer_params. The blocks are free
once the offers have ended: read, dropped, or after ttl_ms.

A decode (do_remote_prefill): vLLM gives blocks, the ranks read into them, and vLLM goes on as after a hit in its own
cache. What fails, or is refused, is a load that failed: kv_load_failure_policy says what becomes of the request.
"""
from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Any, Union

from . import cache, handover
from .api import KVConnectorMetadata, KVConnectorWorkerMetadata, RequestStatus, log
from .handover import Handover, Refused

TTL_MS = 30_000  # of an offer; a decode keeps those of requests that wait there


@dataclass
class Offer:
    """One request's blocks to read from."""

    number: int  # unlike the request's id, not that of an offer before a preemption
    blocks: list[list[int]]  # of each group
    subject: str  # for the seals


@dataclass
class Run:
    """Of the blocks of one group that a prefill has offered, those that are missing here: one after the other."""

    offered: int  # number of blocks
    first: int
    blocks: list[int]  # where they go


@dataclass
class Load:
    """One request's blocks to read into."""

    ranks: list[list[str]]  # metadata of each rank's offers
    runs: list[Run]  # of each group
    subject: str = ""  # for the seals
    refusal: Union[str, None] = None  # why there is nothing to read


@dataclass
class Step(KVConnectorMetadata):
    """From the scheduler to the ranks, with each step."""

    idle: bool = False  # it computes nothing: every request of this engine waits
    offers: dict[str, Offer] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)
    drops: set[str] = field(default_factory=set)  # nobody will be told of these offers, or their requests were aborted
    declined: list[str] = field(default_factory=list)  # metadata of offers that will not be read
    renewed: list[tuple[str, int]] = field(default_factory=list)  # of those whose requests wait here, and for how long
    revoked: set[str] = field(default_factory=set)  # whose blocks vLLM has taken away: the offers end before the step begins


@dataclass
class Offered(KVConnectorWorkerMetadata):
    """From the ranks to the scheduler: by the number of the offer and the rank, its metadata; none where it failed."""

    metadata: dict[int, dict[int, list[str]]]

    def aggregate(self, other: Offered) -> Offered:
        for number, ranks in other.metadata.items():
            self.metadata.setdefault(number, {}).update(ranks)
        return self


@dataclass
class _Offer:
    number: int
    tokens: int
    digest: str
    metadata: dict[int, list[str]] | None = None  # once the ranks have told it
    params: dict[str, Any] | None = None  # of the answer, which wait for metadata


class Scheduler:
    def __init__(self, config: Any, kv_cache: Any, description: dict[str, Any]) -> None:
        transfer = config.kv_transfer_config
        self._config = config
        self._kv_cache = kv_cache
        self._groups = cache.groups(kv_cache)
        self._description = description
        self._key = handover.read_key(transfer.get_from_extra_config("key_file", None))
        self._engine = transfer.engine_id
        self._tp = config.parallel_config.tensor_parallel_size
        self._offers_here = transfer.is_kv_producer
        self._loads_here = transfer.is_kv_consumer
        self._manager: Any = None
        self._prefills: dict[str, tuple[Any, str]] = {}  # requests to be offered, and the digests of their prompts
        self._offers: dict[str, _Offer] = {}
        self._arrived: dict[str, Handover | Refused] = {}  # until the request has blocks
        self._renew_at: dict[str, float] = {}  # of those that wait
        self._computed: dict[str, int] = {}  # tokens that vLLM had when it asked last
        self._ttl_ms = int(transfer.get_from_extra_config("ttl_ms", TTL_MS))
        self._numbers = itertools.count()
        self._next = Step()

    def bind(self, manager: Any) -> None:
        self._manager = manager

    # ---- decode ----

    def arrived(self, request: Any) -> None:
        id = request.request_id
        params = request.kv_transfer_params
        if params is not None and not isinstance(params, dict):
            log.warning("Ferry: the kv_transfer_params of request %s are no object, and not used", id)
            request.kv_transfer_params = params = None  # vLLM takes any for one
        if not params or not params.get("do_remote_prefill"):
            return
        try:
            if not self._loads_here:
                raise Refused("kv_role of this instance is kv_producer, which reads nothing")
            found = handover.parse(params, request, self._description, self._key)
            why = cache.unreadable(self._config, self._kv_cache, len(found.ranks))
            if why:
                raise Refused(why)
            self._arrived[id] = found
            self._renew_at[id] = time.monotonic() + found.ttl_ms / 3000
        except Refused as refusal:
            self._arrived[id] = refusal

    def matched(self, request: Any, computed: int) -> tuple[int, bool]:
        """How many tokens beyond the computed ones will be loaded. Of a refused handover all, which then fails."""
        found = self._arrived.get(request.request_id)
        if found is None:
            return 0, False
        self._computed[request.request_id] = computed
        tokens = found.tokens if isinstance(found, Handover) else request.num_prompt_tokens
        return (tokens - computed, True) if tokens > computed else (0, False)

    def allocated(self, request: Any, blocks: Any, external: int) -> None:
        id = request.request_id
        computed = self._computed.get(id, 0)
        found = self._leave(id)
        if isinstance(found, Handover) and external > 0 and external != found.tokens - computed:
            found = Refused(f"vLLM wants {external} of their {found.tokens} tokens, and has {computed}")
        if isinstance(found, Handover) and external <= 0:
            self._next.declined += found.metadata
        elif isinstance(found, Handover):
            self._next.loads[id] = Load(found.ranks, [
                self._to_read(group, ids, found.tokens, computed)
                for group, ids in zip(self._groups, blocks.get_block_ids())], found.subject)
        elif isinstance(found, Refused):
            log.warning("Ferry: the kv_transfer_params of request %s are refused: %s", id, found)
            if external > 0:
                self._next.loads[id] = Load([], [], refusal=str(found))
        if (request.kv_transfer_params or {}).get("do_remote_decode"):
            self._prefill(request)

    def _leave(self, id: str) -> Handover | Refused | None:
        """The request waits no longer."""
        self._renew_at.pop(id, None)
        self._computed.pop(id, None)
        return self._arrived.pop(id, None)

    def _renew(self, step: Step) -> None:
        """Offers for requests that wait, each a third of its time after the last."""
        now = time.monotonic()
        for id, due in self._renew_at.items():
            found = self._arrived[id]
            if now >= due and isinstance(found, Handover):
                self._renew_at[id] = now + found.ttl_ms / 3000
                step.renewed += [(metadata, found.ttl_ms) for metadata in found.metadata]

    @staticmethod
    def _to_read(group: cache.Group, ids: list[int], tokens: int, computed: int) -> Run:
        """What is cached here is not read again; what lies before a window has block 0, which vLLM keeps for nothing."""
        offered, end = group.first(tokens), group.count(tokens)
        first = max(offered, computed // group.block_size)
        while first < end and not ids[first]:
            first += 1
        return Run(end - offered, first - offered, ids[first:end])

    # ---- prefill ----

    def _prefill(self, request: Any) -> None:
        if not self._offers_here:
            log.warning("Ferry: request %s asks for a prefill, and kv_role of this instance is kv_consumer, which offers "
                        "nothing", request.request_id)
            return
        digest = handover.prompt_digest(request, request.num_prompt_tokens)
        if digest is None:
            log.warning("Ferry: request %s has embeddings for its prompt, and its KV is not offered", request.request_id)
            return
        self._prefills[request.request_id] = request, digest

    def step(self, output: Any) -> Step:
        step, self._next = self._next, Step()
        step.idle = not output.num_scheduled_tokens
        self._renew(step)
        for id in output.preempted_req_ids or ():
            if self._offers.pop(id, None):
                step.revoked.add(id)
        for id, scheduled in output.num_scheduled_tokens.items():
            request, digest = self._prefills.get(id, (None, ""))
            if request is not None and request.num_computed_tokens + scheduled >= request.num_prompt_tokens:
                del self._prefills[id]
                tokens = request.num_prompt_tokens
                offer = self._offers[id] = _Offer(next(self._numbers), tokens, digest)
                blocks = [ids[group.first(tokens):group.count(tokens)]
                          for group, ids in zip(self._groups, self._manager.get_block_ids(id))]
                step.offers[id] = Offer(offer.number, blocks, handover.subject(self._description, tokens, digest))
        return step

    def finished(self, request: Any) -> tuple[bool, dict[str, Any] | None]:
        """Whether the blocks stay until the ranks say that they have been sent, and the answer's kv_transfer_params."""
        id = request.request_id
        self._prefills.pop(id, None)
        found = self._leave(id)
        if found is not None:
            # Aborted before it had blocks. vLLM also sends parameters of a request that its API has rejected, or whose
            # client has left, with a prompt that is none, for the connector to release what the prefill holds.
            self._next.declined += found.metadata
        offer = self._offers.get(id)
        if offer is None:
            return False, None
        if request.status not in (RequestStatus.FINISHED_LENGTH_CAPPED, RequestStatus.FINISHED_STOPPED):
            del self._offers[id]
            self._next.drops.add(id)
            return True, None
        offer.params = {"do_remote_prefill": True, "do_remote_decode": False, "remote_engine_id": self._engine,
                        "remote_request_id": id, "remote_block_ids": None, "remote_host": None, "remote_port": None,
                        "remote_num_tokens": offer.tokens, "tp_size": self._tp}
        self._tell(id, offer)
        return True, offer.params

    def output(self, output: Any) -> None:
        """vLLM calls it after finished and before the answer leaves: params that finished has given are still to be filled."""
        told = output.kv_connector_worker_meta
        if isinstance(told, Offered):
            for id, offer in list(self._offers.items()):
                if offer.number in told.metadata:
                    offer.metadata = told.metadata[offer.number]
                    self._tell(id, offer)

    def _tell(self, id: str, offer: _Offer) -> None:
        """Once both are there, the parameters of the answer and the metadata."""
        if offer.params is None or offer.metadata is None:
            return
        del self._offers[id]
        ranks = [offer.metadata.get(rank, []) for rank in range(self._tp)]
        if not all(ranks):
            # A rank could not offer, and has said why: the decode computes the prompt itself.
            self._next.drops.add(id)
            offer.params["do_remote_prefill"] = False
            return
        offer.params["ferry"] = handover.make(self._description, offer.digest,
                                              Handover(offer.tokens, self._ttl_ms, ranks), self._key)
