# SPDX-License-Identifier: Apache-2.0
"""What ferry.vllm uses of vLLM and torch, and an engine that calls a connector's hooks in vLLM's order.

install() puts the modules in place of vLLM 0.32's. The KV of a token is made of its layer, head, position and of the
tokens before it, so that blocks in the wrong place, or of another prompt, are noticed.
"""
import ctypes
import enum
import hashlib
import sys
import types
from dataclasses import dataclass, field


TOKENS = 16  # of a block
CONTENT = 8  # bytes of a token's KV of one head


class Base:
    def __init__(self, vllm_config, role, kv_cache_config):
        self._kv_transfer_config = vllm_config.kv_transfer_config
        self._kv_cache_config = kv_cache_config
        self._connector_metadata = None
    def bind_connector_metadata(self, metadata):
        self._connector_metadata = metadata

    def _get_connector_metadata(self):
        return self._connector_metadata

    def bind_kv_cache_manager(self, manager):
        pass


for _name in ("build_connector_meta", "build_connector_worker_meta", "get_mem_pool_context", "get_transfer_results",
              "get_num_new_matched_tokens", "handle_preemptions", "on_new_request", "start_load_kv",
              "update_connector_output", "update_state_after_alloc", "wait_for_save"):
    setattr(Base, _name, None)


class Role(enum.Enum):
    SCHEDULER = 0
    WORKER = 1


@dataclass
class Results:
    finished_sending: set = field(default_factory=set)
    finished_recving: set = field(default_factory=set)
    failed_recving: set = field(default_factory=set)


@dataclass
class Stats:
    data: dict = field(default_factory=dict)


class PromMetrics:
    def __init__(self, vllm_config, metric_types, labelnames, per_engine_labelvalues):
        self._counter_cls = self._histogram_cls = metric_types


Status = enum.Enum("Status", "RUNNING FINISHED_STOPPED FINISHED_LENGTH_CAPPED FINISHED_ABORTED")
current_rank = [0]


def _modules():
    v1 = "vllm.distributed.kv_transfer.kv_connector.v1"
    yield "vllm", {"__version__": "0.32.0"}
    yield v1 + ".base", {
        "KVConnectorBase_V1": Base, "KVConnectorMetadata": type("KVConnectorMetadata", (), {}), "KVConnectorRole": Role,
        "KVConnectorTransferResults": Results, "KVConnectorWorkerMetadata": type("KVConnectorWorkerMetadata", (), {}),
        "SupportsHMA": type("SupportsHMA", (), {})}
    yield v1 + ".metrics", {"KVConnectorPromMetrics": PromMetrics, "KVConnectorStats": Stats}
    yield "vllm.v1.metrics.utils", {"create_metric_per_engine": lambda metric, engines: dict.fromkeys(engines, metric)}
    yield "vllm.v1.metrics.cache_hit_source", {"CacheHitSource": enum.Enum("CacheHitSource", "P2P")}
    yield "vllm.v1.request", {"RequestStatus": Status}
    yield "vllm.distributed.parallel_state", {"get_tensor_model_parallel_rank": lambda: current_rank[0]}


def install():
    for name, content in _modules():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            path = ".".join(parts[:end])
            sys.modules.setdefault(path, types.ModuleType(path))
            if end > 1:
                setattr(sys.modules[".".join(parts[:end - 1])], parts[end - 1], sys.modules[path])
        vars(sys.modules[name]).update(content)


# ---- torch's tensors, as far as a connector looks at them ----

class Device:
    def __init__(self, kind="cpu", index=None):
        self.type, self.index = kind, index


class Storage:
    def __init__(self, address, size):
        self.address, self.size = address, size

    def data_ptr(self):
        return self.address

    def nbytes(self):
        return self.size


class View:
    """[blocks, heads, tokens, content] of bytes."""

    def __init__(self, storage, offset, shape, strides, device):
        self.storage, self.offset, self.shape, self.strides, self.device = storage, offset, shape, strides, device

    def dim(self):
        return len(self.shape)

    def stride(self, axis=None):
        return self.strides if axis is None else self.strides[axis]

    def element_size(self):
        return 1

    def data_ptr(self):
        return self.storage.address + self.offset

    def untyped_storage(self):
        return self.storage

    def numel(self):
        product = 1
        for length in self.shape:
            product *= length
        return product

    def __getitem__(self, index):
        return View(self.storage, self.offset, self.shape[1:], self.strides[1:], self.device)


# ---- an engine ----

class FullAttentionSpec:
    block_size = TOKENS


class MLAAttentionSpec(FullAttentionSpec):
    pass


class MambaSpec(FullAttentionSpec):
    pass


class SlidingWindowSpec(FullAttentionSpec):
    def __init__(self, sliding_window):
        self.sliding_window = sliding_window


@dataclass
class CacheGroup:
    kv_cache_spec: object
    layer_names: list


@dataclass
class Output:
    """Of the scheduler, and of a model runner."""

    num_scheduled_tokens: dict = field(default_factory=dict)
    preempted_req_ids: set = field(default_factory=set)
    kv_connector_worker_meta: object = None


class Request:
    lora_request = None
    prompt_embeds = None
    mm_features = ()

    def __init__(self, id, prompt, params):
        self.request_id, self.prompt_token_ids, self.kv_transfer_params = id, prompt, params
        self.num_prompt_tokens = len(prompt)
        self.num_computed_tokens = 0
        self.status = Status.RUNNING


class Transfer:
    def __init__(self, role, policy, extra):
        self.engine_id = "engine"
        self.kv_load_failure_policy = policy
        self.is_kv_producer, self.is_kv_consumer = role != "kv_consumer", role != "kv_producer"
        self.extra = extra

    def get_from_extra_config(self, key, default):
        return self.extra.get(key, default)


def config(tp=1, heads=4, model="m", role="kv_both", policy="recompute", extra=None, **changes):
    made = types.SimpleNamespace(
        kv_transfer_config=Transfer(role, policy, extra or {}), speculative_config=None,
        parallel_config=types.SimpleNamespace(tensor_parallel_size=tp),
        cache_config=types.SimpleNamespace(cache_dtype="auto", kv_cache_layout="LBHNC"),
        model_config=types.SimpleNamespace(
            served_model_name=model, model=model, dtype="float32", use_mla=False, get_total_num_kv_heads=lambda: heads,
            get_total_num_hidden_layers=lambda: 3, get_head_size=lambda: CONTENT))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def kv(prompt, layer, head, position):
    """The KV of one token of one head, CONTENT bytes."""
    text = f"{layer} {head} {prompt[:position + 1]}"
    return hashlib.blake2b(text.encode(), digest_size=CONTENT).digest()


class Blocks:
    def __init__(self, ids):
        self.ids = ids

    def get_block_ids(self):
        return self.ids


class Engine:
    """tp ranks, each with the memory of its heads. Block 0 is kept for nothing, as vLLM does."""

    def __init__(self, connector, tp=1, heads=4, blocks=40, ratio=1, interleaved=False, groups=None, by_head=True,
                 **options):
        self.tp, self.heads, self.ratio = tp, heads // tp, ratio
        self.groups = groups or [CacheGroup(FullAttentionSpec(), ["layer.0", "layer.1", "layer.2"])]
        self.cache = types.SimpleNamespace(kv_cache_groups=self.groups, num_blocks=blocks)
        self.config = config(tp, heads, **options)
        self.by_head, self.interleaved = by_head, interleaved
        self.free = list(range(1, blocks))
        self.held = {}  # blocks of each group, by request
        self.requests = {}
        self.finished = set()
        self.answers = {}
        self.ended = {"sent": {}, "loaded": {}, "failed": set()}  # how many ranks have told it
        self.scheduler = connector(self.config, Role.SCHEDULER, self.cache)
        self.scheduler.bind_kv_cache_manager(self)
        self.ranks = []
        for rank in range(tp):
            current_rank[0] = rank
            made = connector(self.config, Role.WORKER, self.cache)
            made.views = self._memory(blocks)
            made.register_kv_caches(made.views)
            self.ranks.append(made)

    def _memory(self, blocks):
        names = [name for group in self.groups for name in group.layer_names]
        tokens = TOKENS // self.ratio
        piece = self.heads * tokens * CONTENT
        inner = (tokens * CONTENT, CONTENT, 1) if self.by_head else (CONTENT, self.heads * CONTENT, 1)
        count = blocks * self.ratio
        storage, device = self.storage(piece * count * len(names))
        layer, block = (piece, piece * len(names)) if self.interleaved else (piece * count, piece)
        return {name: View(storage, layer * i, (count, self.heads, tokens, CONTENT), (block, *inner), device)
                for i, name in enumerate(names)}

    def close(self):
        for rank in self.ranks:
            rank.shutdown()

    # of the manager of the KV cache
    def get_block_ids(self, id):
        return self.held[id]

    def _address(self, view, block, head, position):
        tokens = TOKENS // self.ratio
        kernel, token = divmod(position, tokens)
        return view.data_ptr() + (block * self.ratio + kernel) * view.strides[0] + head * view.strides[1] + \
            token * view.strides[2]

    def _each(self, id, prompt, first=0):
        """Address and the KV that belongs there, of each token and head of each layer."""
        for rank, connector in enumerate(self.ranks):
            for number, group in enumerate(self.groups):
                for name in group.layer_names:
                    for position in range(first, len(prompt)):
                        block = self.held[id][number][position // TOKENS]
                        for head in range(self.heads if block else 0):
                            yield self._address(connector.views[name], block, head, position % TOKENS), \
                                kv(prompt, name, rank * self.heads + head, position)

    def compute(self, id, prompt, first=0):
        for address, data in self._each(id, prompt, first):
            self.poke(address, data)

    def holds(self, id, prompt, first=0):
        return all(self.peek(address) == data for address, data in self._each(id, prompt, first))

    def poke(self, address, data):
        ctypes.memmove(address, data, CONTENT)

    def peek(self, address):
        return ctypes.string_at(address, CONTENT)

    def storage(self, size):
        memory = (ctypes.c_char * size)()
        made = Storage(ctypes.addressof(memory), size)
        made.keep = memory
        return made, Device()

    def allocate(self, id, tokens, computed=0):
        count = -(-tokens // TOKENS)
        self.held[id] = []
        for group in self.groups:
            ids = [self.free.pop() for _ in range(count)]
            window = getattr(group.kv_cache_spec, "sliding_window", None)
            if window:  # what lies before the window gets no block
                skipped = max(0, tokens - window + 1 - computed) // TOKENS
                ids[:skipped] = [0] * skipped
            self.held[id].append(ids)

    def release(self, id):
        for ids in self.held.pop(id):
            self.free += filter(None, ids)

    def step(self, scheduled=None, preempted=()):
        """One step of the engine: what the scheduler says reaches the ranks, whose output comes back."""
        output = Output(dict(scheduled or {}), set(preempted))
        metadata = self.scheduler.build_connector_meta(output)
        finished, self.finished = self.finished, set()
        told, results = None, []
        for rank in self.ranks:
            rank.bind_connector_metadata(metadata)
            rank.handle_preemptions(metadata)
            rank.start_load_kv(None)
            rank.wait_for_save()
            results.append(rank.get_transfer_results(finished))
            new = rank.build_connector_worker_meta()
            told = new if told is None else told if new is None else told.aggregate(new)
        for id, tokens in output.num_scheduled_tokens.items():
            self.requests[id].num_computed_tokens += tokens
        return told, results

    def end(self, told, results):
        """What vLLM does with the output, after requests have finished."""
        self.scheduler.update_connector_output(Output(kv_connector_worker_meta=told))
        for result in results:
            for key, ids in (("sent", result.finished_sending), ("loaded", result.finished_recving)):
                for id in ids:
                    self.ended[key][id] = self.ended[key].get(id, 0) + 1
            self.ended["failed"] |= result.failed_recving

    def finish(self, id, status=Status.FINISHED_LENGTH_CAPPED):
        request = self.requests[id]
        request.status = status
        self.finished.add(id)
        return self.scheduler.request_finished_all_groups(request, None)

    def add(self, id, prompt, params):
        self.requests[id] = Request(id, prompt, params)
        self.scheduler.on_new_request(self.requests[id])
        return self.requests[id]

    def prefill(self, id, prompt, end=True):
        """kv_transfer_params, when end."""
        request = self.add(id, prompt, {"do_remote_decode": True})
        self.allocate(id, len(prompt))
        self.scheduler.update_state_after_alloc(request, Blocks(self.held[id]), 0)
        self.compute(id, prompt)
        half = len(prompt) // 2  # two chunks
        self.end(*self.step({id: half}))
        told, results = self.step({id: len(prompt) - half})
        if not end:
            self.end(told, results)
            return None
        held, params = self.finish(id)
        assert held
        self.end(told, results)
        return params

    def load(self, id, prompt, params, cached=0):
        """Begins to load; how many tokens."""
        request = self.add(id, prompt, params)
        external, later = self.scheduler.get_num_new_matched_tokens(request, cached)
        assert later == (external > 0)
        self.allocate(id, len(prompt), cached)
        self.scheduler.update_state_after_alloc(request, Blocks(self.held[id]), external)
        return external

    def until(self, key, id, steps=4000):
        """Steps until all ranks have told that the request was sent or loaded; whether it was."""
        for _ in range(steps):
            if self.ended[key].get(id) == self.tp:
                return id not in self.ended["failed"]
            self.end(*self.step())
        raise AssertionError(f"{id} was not {key}")

    def decode(self, id, prompt, params, cached=0):
        """Whether the KV was loaded."""
        if not self.load(id, prompt, params, cached):
            return False
        return self.until("loaded", id)
