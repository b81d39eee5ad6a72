# SPDX-License-Identifier: Apache-2.0
"""FerryConnector: vLLM's hooks, each in the scheduler or in a rank."""
from __future__ import annotations

from typing import Any

from . import api, cache
from .metrics import FerryPromMetrics, FerryStats
from .rank import Rank
from .scheduler import Scheduler


class FerryConnector(api.KVConnectorBase_V1, api.SupportsHMA):
    _cache_hit_source = api.CacheHitSource.P2P

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        cache.check_supported(vllm_config, kv_cache_config)
        self._scheduler: Any = None
        self._rank: Any = None
        if role == api.KVConnectorRole.SCHEDULER:
            api.check_version()
            self._scheduler = Scheduler(vllm_config, kv_cache_config,
                                        cache.describe(vllm_config, kv_cache_config, api.version()))
        else:
            self._rank = Rank(vllm_config, kv_cache_config)

    @classmethod
    def get_required_kvcache_layout(cls, vllm_config: Any) -> str | None:
        """The heads of a block side by side, so that ranks of another number can read theirs. MLA has no such heads."""
        model = vllm_config.model_config
        return None if model is None or model.use_mla else "LBHNC"

    # ---- scheduler ----

    def bind_kv_cache_manager(self, kv_cache_manager: Any) -> None:
        super().bind_kv_cache_manager(kv_cache_manager)
        self._scheduler.bind(kv_cache_manager)

    def get_loaded_kv_cache_group_ids(self, request: Any) -> tuple[int, ...]:
        return tuple(range(len(self._kv_cache_config.kv_cache_groups)))

    def on_new_request(self, request: Any) -> None:
        self._scheduler.arrived(request)

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        return self._scheduler.matched(request, num_computed_tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        self._scheduler.allocated(request, blocks, num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        return self._scheduler.step(scheduler_output)

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, dict[str, Any] | None]:
        return self._scheduler.finished(request)

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        return self._scheduler.finished(request)

    def update_connector_output(self, connector_output: Any) -> None:
        self._scheduler.output(connector_output)

    # ---- ranks ----

    def get_mem_pool_context(self) -> Any:
        return self._rank.allocation()

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        self._rank.register(kv_caches)

    def handle_preemptions(self, kv_connector_metadata: Any) -> None:
        self._rank.revoke(kv_connector_metadata)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        self._rank.load(self._get_connector_metadata())

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Loads run between steps: a request is scheduled once it has all of its layers."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """Blocks are read where they are."""

    def wait_for_save(self) -> None:
        self._rank.offer(self._get_connector_metadata())

    def get_transfer_results(self, finished_req_ids: set[str]) -> Any:
        return self._rank.results(finished_req_ids, self._get_connector_metadata())

    def build_connector_worker_meta(self) -> Any:
        return self._rank.offered()

    def shutdown(self) -> None:
        if self._rank is not None:
            self._rank.close()

    # ---- metrics ----

    def get_kv_connector_stats(self) -> Any:
        if self._rank is None or self._rank.stats.is_empty():
            return None
        return self._rank.stats.take()

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> Any:
        return FerryStats(data=data) if data is not None else FerryStats()

    @classmethod
    def build_prom_metrics(cls, vllm_config: Any, metric_types: Any, labelnames: list[str],
                           per_engine_labelvalues: dict[int, list[object]]) -> Any:
        return FerryPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)
