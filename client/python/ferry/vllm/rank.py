# SPDX-License-Identifier: Apache-2.0
"""One rank's side: its offers and reads, by one ferry.Worker. The thread of vLLM's worker calls every method.

Every end is reported once: an offer's when its request has finished and no peer touches the blocks any more, a load's
when nothing writes its blocks any more. Only then vLLM gives the blocks to another request.
"""
from __future__ import annotations

import contextlib
import select
import time
from typing import TYPE_CHECKING, Any

from ..errors import FerryError, OperationFailed
from ..worker import Worker
from . import cache
from .api import KVConnectorTransferResults, get_tensor_model_parallel_rank, log
from .handover import SEAL_SIZE, seal
from .metrics import FerryStats
from .scheduler import TTL_MS, Load, Offer, Offered, Run, Step

if TYPE_CHECKING:
    from .._fields import Kind

# Pieces of one operation, of 262,144 that it may have: a decode with fewer ranks needs several for one of the prefill's.
MAX_PIECES = 65536
RENEW_MAX_MS = 600_000
TIMEOUT_MS = 30_000
# Of a step that computes nothing, for the end of a transfer: vLLM asks again after its next step, which takes milliseconds
# of the cores that copy. A request that arrives waits as long.
WAIT_MS = 5


class _Seals:
    """Places in memory of Ferry, of SEAL_SIZE bytes each, for the seals of offers and reads."""

    CHUNK = 1024

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        if not self._free:
            chunk = self._worker.allocate(self.CHUNK * SEAL_SIZE, "seals")
            self._free = [chunk[i:i + SEAL_SIZE] for i in range(0, len(chunk), SEAL_SIZE)]
        return self._free.pop()

    def give(self, place: memoryview) -> None:
        place[:] = bytes(SEAL_SIZE)
        self._free.append(place)


class _Transfer:
    """The operations of one request on this rank: its layers, and on a decode the ranks of the prefill."""

    __slots__ = ("operations", "places", "expected", "started", "error", "request_finished")

    def __init__(self) -> None:
        self.operations: list[Any] = []
        self.places: list[memoryview] = []  # of the seals, one an operation
        self.expected: list[bytes] = []  # of a decode: what they must be
        self.started = time.perf_counter()
        self.error: Exception | None = None
        self.request_finished = False

    def add(self, worker: Worker, seals: _Seals, content: bytes, kind: Kind, memory: list[Any], **fields: Any) -> Any:
        """An operation that has a seal, and then the memory. content: of a readable the seal, of a read what it must be.
        None when it cannot begin: the transfer has failed, and the rest is cancelled."""
        try:
            self.places.append(seals.take())
            if kind == "readable":
                self.places[-1][:] = content
            else:
                self.expected.append(content)
            self.operations.append(worker.create(kind, [self.places[-1], *memory], **fields))
            return self.operations[-1]
        except (FerryError, OSError, ValueError) as error:
            self.fail(error)
            return None

    def fail(self, error: Exception) -> None:
        self.error = self.error or error
        self.cancel()

    def cancel(self) -> None:
        for operation in self.operations:
            operation.cancel()

    def quiet(self) -> bool:
        """Whether nothing touches its memory any more. The first failure ends the rest."""
        quiet = True
        for operation in self.operations:
            if not operation.done:
                quiet = False
            elif self.error is None:
                try:
                    operation.result()
                except (OperationFailed, OSError) as error:
                    self.fail(error)
        if quiet and self.error is None and any(place != seal for place, seal in zip(self.places, self.expected)):
            self.error = FerryError("refused", "the offer is that of another prompt, cache or rank: its parameters were "
                                    "edited")
        return quiet


def parts(layers: int, pieces: int) -> int:
    """Layers of each operation, where one operation cannot have the pieces of them all."""
    operations = -(-layers // max(1, MAX_PIECES // max(1, pieces)))
    return -(-layers // operations)


def missing(layers: list[cache.Layer], runs: list[Run], of: int) -> list[tuple[int, int]]:
    """The ranges to read of an offer of these layers: of each, the bytes of the blocks that are missing here.

    of: how many ranks of the prefill have the heads of one here.
    """
    ranges = [(0, SEAL_SIZE)]
    offset = SEAL_SIZE
    for layer in layers:
        run, size = runs[layer.group], layer.piece * layer.ratio // of
        if run.blocks:
            ranges.append((offset + run.first * size, len(run.blocks) * size))
        offset += run.offered * size
    return ranges


class Rank:
    def __init__(self, config: Any, kv_cache: Any) -> None:
        transfer = config.kv_transfer_config
        self._kv_cache = kv_cache
        self._rank = get_tensor_model_parallel_rank()
        self._tp = config.parallel_config.tensor_parallel_size
        self._ttl_ms = int(transfer.get_from_extra_config("ttl_ms", TTL_MS))
        self._renew_max_ms = max(self._ttl_ms, int(transfer.get_from_extra_config("renew_max_ms", RENEW_MAX_MS)))
        self._timeout_ms = int(transfer.get_from_extra_config("timeout_ms", TIMEOUT_MS))
        self._ferry_memory = bool(transfer.get_from_extra_config("ferry_memory", True))
        self._after_failure = "vLLM computes the prompt here" if transfer.kv_load_failure_policy == "recompute" else \
            "vLLM fails the request (kv_load_failure_policy)"
        self.worker = Worker(**transfer.get_from_extra_config("worker", {}))
        self._ends = select.poll()
        self._ends.register(self.worker.ended_fd, select.POLLIN)
        self._seals = _Seals(self.worker)
        self._layers: list[cache.Layer] = []
        self._device: Any = None
        self._offers: dict[str, _Transfer] = {}
        self._loads: dict[str, _Transfer] = {}
        self._new: dict[int, dict[int, list[str]]] = {}
        self.stats = FerryStats()

    def allocation(self) -> Any:
        """The context in which vLLM allocates its KV cache; None where its own memory is used."""
        return cache.memory_of_ferry(self.worker) if self._ferry_memory else None

    def register(self, caches: dict[str, Any]) -> None:
        self._layers = cache.layers(self.worker, caches, self._kv_cache)
        self._device = next(iter(caches.values())).device

    def close(self) -> None:
        self.worker.close()

    # ---- decode ----

    def load(self, step: Step) -> None:
        if self._rank == 0:
            self._tell_prefills(step)
        for id, load in step.loads.items():
            transfer = self._loads[id] = _Transfer()
            if load.refusal is not None:
                transfer.error = FerryError("refused", load.refusal)
            else:
                self._read(transfer, load)

    def _read(self, transfer: _Transfer, load: Load) -> None:
        """From the ranks of the prefill that have this rank's heads: of each, all of its offers."""
        ranks = len(load.ranks)
        of = ranks // self._tp
        if of > 1 and not all(layer.by_head for layer in self._layers):
            transfer.error = FerryError("refused", f"the prefill has {of} times as many ranks, and the heads of a block of "
                                        "this KV cache lie apart: the tensor parallel sizes must be equal")
            return
        for index in range(of):
            rank = self._rank * of + index
            offers = load.ranks[rank]
            count = -(-len(self._layers) // len(offers))
            for number, metadata in enumerate(offers):
                layers = self._layers[number * count:(number + 1) * count]
                memory = cache.memory(layers, [run.blocks for run in load.runs], index, of)
                if not memory:
                    self._decline(metadata)
                    continue
                expected = seal(load.subject, rank, ranks, number, len(offers))
                if not transfer.add(self.worker, self._seals, expected, "read", memory, remote=metadata,
                                    timeout_ms=self._timeout_ms, parts=missing(layers, load.runs, of)):
                    return

    def _tell_prefills(self, step: Step) -> None:
        """Which offers will not be read, and which later. Neither waits; what does not arrive ends after its ttl_ms."""
        for metadata in step.declined:
            self._decline(metadata)
        for metadata, ttl_ms in step.renewed:
            with contextlib.suppress(FerryError, OSError, ValueError):
                self.worker.renew(metadata, ttl_ms, timeout=0)

    def _decline(self, metadata: str) -> None:
        with contextlib.suppress(FerryError, OSError, ValueError):
            self.worker.decline(metadata, timeout=0)

    # ---- prefill ----

    def offer(self, step: Step) -> None:
        if step.offers and self._device.type == "cuda":
            self._wait_for_device()
        for id, offer in step.offers.items():
            transfer = self._offers[id] = _Transfer()
            metadata = self._offer(transfer, offer)
            if transfer.error:
                log.warning("Ferry: the KV of request %s is not offered: %s", id, transfer.error)
            self._new.setdefault(offer.number, {})[self._rank] = metadata if not transfer.error else []
        for id in step.drops & self._offers.keys():
            self._offers[id].cancel()

    def _offer(self, transfer: _Transfer, offer: Offer) -> list[str]:
        """The metadata of its operations, each of so many layers as one may have pieces of."""
        blocks = offer.blocks
        count = parts(len(self._layers), max(layer.pieces(len(blocks[layer.group])) for layer in self._layers))
        firsts = range(0, len(self._layers), count)
        metadata = []
        for number, first in enumerate(firsts):
            content = seal(offer.subject, self._rank, self._tp, number, len(firsts))
            memory = cache.memory(self._layers[first:first + count], blocks)
            operation = transfer.add(self.worker, self._seals, content, "readable", memory, layout="stream",
                                     ttl_ms=self._ttl_ms, renew_max_ms=self._renew_max_ms)
            if not operation:
                break
            metadata.append(operation.metadata)
        return metadata

    @staticmethod
    def _wait_for_device() -> None:
        """The step's kernels write the KV that is about to be offered; Ferry's copies wait for no other stream."""
        import torch
        torch.cuda.current_stream().synchronize()

    def revoke(self, step: Step) -> None:
        """Before a step writes blocks that vLLM has taken from these requests."""
        for id in step.revoked & self._offers.keys():
            transfer = self._offers.pop(id)
            for operation in transfer.operations:
                operation.close()
            self._forget(transfer)
            log.info("Ferry: the offer of request %s ended, because vLLM preempted it", id)

    def offered(self) -> Offered | None:
        new, self._new = self._new, {}
        return Offered(new) if new else None

    # ---- ends ----

    def _wait(self) -> None:
        """Until a transfer ends, for WAIT_MS at most; not at all where one has ended, or none runs."""
        transfers = [*self._loads.values(), *self._offers.values()]
        if transfers and not any(transfer.quiet() for transfer in transfers):
            self._ends.poll(WAIT_MS)

    def results(self, finished: set[str], step: Step) -> Any:
        got = KVConnectorTransferResults()
        for id in finished:
            if id in self._offers:
                self._offers[id].request_finished = True
            elif id in self._loads:
                self._loads[id].cancel()  # aborted: vLLM waits until nothing writes its blocks
        if step.idle:
            self._wait()
        self.worker.ended()  # they are asked one by one
        for id, transfer in list(self._offers.items()):
            if transfer.quiet() and transfer.request_finished:
                self._forget(self._offers.pop(id))
                got.finished_sending.add(id)
                self._note_offer(id, transfer)
        for id, transfer in list(self._loads.items()):
            if transfer.quiet():
                self._forget(self._loads.pop(id))
                got.finished_recving.add(id)
                if transfer.error is not None:
                    got.failed_recving.add(id)
                self._note_load(id, transfer)
        return got

    def _forget(self, transfer: _Transfer) -> None:
        """It is quiet: its places are free for others."""
        for place in transfer.places:
            self._seals.give(place)

    def _note_offer(self, id: str, transfer: _Transfer) -> None:
        error = transfer.error
        code = getattr(error, "code", "")
        if error is None:
            self.stats.record("offer_seconds", time.perf_counter() - transfer.started)
        elif code == "expired":
            self.stats.record("unread_offers")
            log.warning("Ferry: no decode has read the KV of request %s within %.1f s; its blocks are free again",
                        id, self._ttl_ms / 1000)
        elif code == "declined":
            self.stats.record("declined_offers")
        elif code != "cancelled":
            self.stats.record("failed_offers")
            log.warning("Ferry: the KV of request %s was not read: %s", id, error)

    def _note_load(self, id: str, transfer: _Transfer) -> None:
        error = transfer.error
        if error is None:
            seconds = time.perf_counter() - transfer.started
            size = sum(operation.bytes_total for operation in transfer.operations)
            self.stats.record("read_seconds", seconds)
            self.stats.record("read_bytes", size)
            log.debug("Ferry: read %d bytes for request %s by %s in %.1f ms", size, id,
                      transfer.operations[0].transport, 1e3 * seconds)
        elif getattr(error, "code", "") != "cancelled":
            self.stats.record("failed_reads")
            log.warning("Ferry: the KV of request %s could not be read, so %s: %s", id, self._after_failure, error)
