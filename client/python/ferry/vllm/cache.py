# SPDX-License-Identifier: Apache-2.0
"""Where the blocks of a KV cache are in memory, and memory of Ferry for it.

vLLM gives each layer a view [blocks, heads, tokens, content] of one allocation. A block of the scheduler is one block of
that view, or several in a row where the attention kernel has smaller ones ("kernel blocks").
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..worker import numbers_of
from .api import log

# Kinds of KV cache whose blocks are the KV of their tokens and nothing else, by the exact class: a subclass may keep more.
_WHOLE = "FullAttentionSpec"
_MLA = "MLAAttentionSpec"
_WINDOW = "SlidingWindowSpec"
_SUPPORTED = (_WHOLE, _MLA, _WINDOW)


def _kind(spec: Any) -> str:
    """The class of a group's spec; of layers that differ in their sizes alone, that of all of them."""
    name = type(spec).__name__
    if name != "UniformTypeKVCacheSpecs":
        return name
    return " and ".join(sorted({type(one).__name__ for one in spec.kv_cache_specs.values()}))


def check_supported(config: Any, cache: Any) -> None:
    """Raises NotImplementedError with a sentence for what FerryConnector would hand over wrongly."""
    parallel = config.parallel_config
    for name in ("pipeline_parallel_size", "decode_context_parallel_size", "prefill_context_parallel_size"):
        if getattr(parallel, name, 1) != 1:
            raise NotImplementedError(f"FerryConnector does not support {name} > 1: set it to 1")
    if config.speculative_config is not None:
        raise NotImplementedError("FerryConnector does not support speculative decoding: vLLM saves the KV of such a step "
                                  "after its answer. Leave out --speculative-config")
    for group in cache.kv_cache_groups:
        kind = _kind(group.kv_cache_spec)
        if kind not in _SUPPORTED:
            raise NotImplementedError(f"FerryConnector does not support the KV cache of this model: layer "
                                      f"{group.layer_names[0]} keeps its state as {kind}")


def describe(config: Any, cache: Any, vllm_version: str) -> dict[str, Any]:
    """What must be equal on both sides, as JSON has it. The names are those of a refusal."""
    model = config.model_config
    name = model.served_model_name
    return {
        "vLLM version": vllm_version,
        "model": name[0] if isinstance(name, list) else name or model.model,
        "dtype": str(model.dtype),
        "KV cache dtype": str(config.cache_config.cache_dtype),
        "number of layers": model.get_total_num_hidden_layers(),
        "number of KV heads": model.get_total_num_kv_heads(),
        "head size": model.get_head_size(),
        "KV cache layout": str(getattr(config.cache_config, "kv_cache_layout", None)),
        "KV cache groups": [[_kind(group.kv_cache_spec), group.kv_cache_spec.block_size,
                             getattr(group.kv_cache_spec, "sliding_window", None), len(group.layer_names)]
                            for group in cache.kv_cache_groups],
    }


def unreadable(config: Any, cache: Any, prefill: int) -> str | None:
    """Why ranks of this instance cannot read what so many ranks of a prefill offer; None if they can.

    A rank has the heads rank × share to (rank + 1) × share. With fewer ranks here than there, each reads several.
    """
    decode = config.parallel_config.tensor_parallel_size
    if prefill == decode:
        return None
    sizes = f"the prefill has a tensor parallel size of {prefill}, and the decode of {decode}"
    heads = config.model_config.get_total_num_kv_heads()
    if any(_kind(group.kv_cache_spec) == _MLA for group in cache.kv_cache_groups):
        return f"{sizes}: with MLA they must be equal"
    if prefill % decode:
        return f"{sizes}: the prefill's must be equal, or a multiple"
    if heads % prefill:
        return f"{sizes}: the {heads} KV heads cannot be divided by {prefill}, so they must be equal"
    return None


@dataclass
class Group:
    """A group of layers whose blocks are numbered together."""

    block_size: int
    window: int | None  # blocks at the end of a prompt that are handed over; None = all

    def count(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def first(self, tokens: int) -> int:
        """The first block of a prompt that is handed over."""
        count = self.count(tokens)
        return 0 if self.window is None else max(0, count - self.window)


def groups(cache: Any) -> list[Group]:
    made = []
    for group in cache.kv_cache_groups:
        size = group.kv_cache_spec.block_size
        window = None
        if _kind(group.kv_cache_spec) == _WINDOW:
            # One more, because the window may begin inside a block.
            window = -(-group.kv_cache_spec.sliding_window // size) + 1
        made.append(Group(size, window))
    return made


@dataclass
class Layer:
    """The blocks of one layer, as pieces of a region."""

    group: int
    region: Any  # from the layer's first byte on
    piece: int  # bytes of a kernel block
    stride: int  # from one kernel block to the next, in bytes
    ratio: int  # kernel blocks of a block
    by_head: bool  # the bytes of a head are in one piece

    def shape(self, of: int) -> tuple[int, int, int]:
        """Bytes of a piece, pieces of that size from one kernel block to the next, and pieces of a block."""
        if of == 1 and self.stride == self.piece:
            return self.piece * self.ratio, 1, 1
        return self.piece // of, self.stride // (self.piece // of), self.ratio

    def pieces(self, blocks: int) -> int:
        return blocks if self.stride == self.piece else blocks * self.ratio


def memory(layers: Sequence[Layer], blocks: Sequence[Sequence[int]], index: int = 0, of: int = 1) -> list[Any]:
    """Descriptors of the blocks of each group in these layers; of their heads the index-th of so many equal shares."""
    made = []
    numbers: dict[Any, Any] = {}  # made once for all layers of a kind: an engine waits for an offer
    for layer in layers:
        if not blocks[layer.group]:
            continue
        size, step, ratio = layer.shape(of)
        key = layer.group, step, ratio
        if key not in numbers:
            numbers[key] = numbers_of(blocks[layer.group] if (step, ratio) == (1, 1) else [
                (block * ratio + i) * step + index for block in blocks[layer.group] for i in range(ratio)])
        made.append(layer.region.blocks(size, numbers[key]))
    return made


def _strides(view: Any) -> tuple[int, bool]:
    """Bytes of a block of the view, and whether its heads are in one piece each. Raises NotImplementedError."""
    size = view.element_size()
    expected = size
    by_head = True
    for stride, length, axis in sorted(zip(view.stride()[1:], view.shape[1:], (1, 2, 3))):
        if length == 1:
            continue
        if stride * size != expected:
            raise NotImplementedError("its blocks are not contiguous")
        by_head = by_head and (axis != 1 or expected * length == view[0].numel() * size)
        expected *= length
    return expected, by_head


def layers(worker: Any, caches: dict[str, Any], cache: Any) -> list[Layer]:
    """The layers of a rank in the order of an offer's bytes, their memory registered.

    caches are vLLM's views by layer. Layers of several groups may have the same view, of which each uses other blocks;
    a layer that uses the KV of another one is in no group.
    """
    made: list[Layer] = []
    regions: dict[int, Any] = {}
    for number, group in enumerate(cache.kv_cache_groups):
        for name in sorted(group.layer_names):
            try:
                made.append(_layer(worker, number, caches[name], cache.num_blocks, regions))
            except NotImplementedError as error:
                raise NotImplementedError(f"FerryConnector does not know how the KV cache of {name} lies in memory: "
                                          f"{error}") from None
    return made


def _layer(worker: Any, group: int, view: Any, num_blocks: int, regions: dict[int, Any]) -> Layer:
    if view.dim() != 4 or view.shape[0] % num_blocks:
        raise NotImplementedError(f"its shape is {tuple(view.shape)}, for {num_blocks} blocks")
    piece, by_head = _strides(view)
    stride = view.stride(0) * view.element_size()
    if stride % piece:
        raise NotImplementedError(f"its blocks of {piece} bytes are {stride} bytes apart")
    storage = view.untyped_storage()
    start = storage.data_ptr()
    if start not in regions:
        regions[start] = _region(worker, start, storage.nbytes(), view.device, storage)
    region = regions[start].slice(view.data_ptr() - start, stride * (view.shape[0] - 1) + piece)
    return Layer(group, region, piece, stride, view.shape[0] // num_blocks, by_head)


def _region(worker: Any, address: int, size: int, device: Any, keep: Any) -> Any:
    if device.type == "cpu":
        found = worker.region_at(address, size, keep)
        log.info("Ferry: %.2f GiB of KV cache in %s", size / 2**30,
                 "memory of Ferry: peers on this host map it, and copy each byte once" if found else
                 "memory of vLLM: each byte is copied twice")
        return found or worker.register(address, size, keep, name="KV cache")
    if device.type != "cuda":
        raise NotImplementedError(f"FerryConnector moves KV caches of CPUs and of CUDA devices, and this one is on {device}")
    log.warning("Ferry: %.2f GiB of KV cache on %s. FerryConnector has not been tried on a GPU yet", size / 2**30, device)
    return worker.register(address, size, keep, device=f"cuda:{device.index or 0}", name="KV cache")


@contextlib.contextmanager
def memory_of_ferry(worker: Any) -> Iterator[None]:
    """While vLLM allocates its KV cache: on a CPU the memory comes from Ferry, so that peers on this host can map it.

    vLLM takes it by torch.zeros(bytes, dtype=torch.int8, device="cpu").
    """
    import torch
    from torch.overrides import TorchFunctionMode

    class Allocation(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func is torch.zeros and len(args) == 1 and isinstance(args[0], int) and args[0] > 0 and \
                    kwargs.get("dtype") is torch.int8 and torch.device(kwargs.get("device") or "cpu").type == "cpu":
                try:
                    return torch.frombuffer(worker.allocate(args[0], "KV cache"), dtype=torch.int8)
                except (RuntimeError, OSError) as error:
                    log.warning("Ferry: no memory for the KV cache (%s); vLLM allocates its own", error)
            return func(*args, **kwargs)

    with Allocation():
        yield
