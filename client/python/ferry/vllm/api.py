# SPDX-License-Identifier: Apache-2.0
"""What is used of vLLM. The API of its connectors is declared to be experimental: what is missing is said at once.

A connector of another API would be loaded and then hand over nothing, or the wrong blocks.
"""
from __future__ import annotations

import importlib
import logging
from typing import Any

TESTED = "0.32"

_V1 = "vllm.distributed.kv_transfer.kv_connector.v1."

log = logging.getLogger("vllm.ferry")


def version() -> str:
    try:
        return importlib.import_module("vllm").__version__
    except (ImportError, AttributeError):
        return "of unknown version"


def _refusal(what: str) -> ImportError:
    return ImportError(f"ferry.vllm works with vLLM {TESTED}, and this vLLM is {version()}: {what}. Install vLLM {TESTED}, "
                       "or a version of Ferry that knows this vLLM")


def _take(module: str, *names: str) -> list[Any]:
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise _refusal(f"{module} cannot be imported ({error})") from error
    for name in names:
        if not hasattr(found, name):
            raise _refusal(f"{module} has no {name}")
    return [getattr(found, name) for name in names]


(KVConnectorBase_V1, KVConnectorMetadata, KVConnectorRole, KVConnectorTransferResults, KVConnectorWorkerMetadata,
 SupportsHMA) = _take(_V1 + "base", "KVConnectorBase_V1", "KVConnectorMetadata", "KVConnectorRole",
                      "KVConnectorTransferResults", "KVConnectorWorkerMetadata", "SupportsHMA")
KVConnectorPromMetrics, KVConnectorStats = _take(_V1 + "metrics", "KVConnectorPromMetrics", "KVConnectorStats")
(create_metric_per_engine,) = _take("vllm.v1.metrics.utils", "create_metric_per_engine")
(CacheHitSource,) = _take("vllm.v1.metrics.cache_hit_source", "CacheHitSource")
(RequestStatus,) = _take("vllm.v1.request", "RequestStatus")
(get_tensor_model_parallel_rank,) = _take("vllm.distributed.parallel_state", "get_tensor_model_parallel_rank")

# Hooks without which a request would wait for ever, or blocks would be freed under a peer.
for _hook in ("bind_kv_cache_manager", "build_connector_meta", "build_connector_worker_meta", "get_mem_pool_context",
              "get_transfer_results", "get_num_new_matched_tokens", "handle_preemptions", "on_new_request",
              "start_load_kv", "update_connector_output", "update_state_after_alloc", "wait_for_save"):
    if not hasattr(KVConnectorBase_V1, _hook):
        raise _refusal(f"its connectors have no {_hook}()")
for _hook in ("finished_sending", "finished_recving", "failed_recving"):
    if not hasattr(KVConnectorTransferResults(), _hook):
        raise _refusal(f"its transfer results have no {_hook}")


def check_version() -> None:
    here = version()
    if not here.startswith((TESTED + ".", TESTED + "+")) and here != TESTED:
        log.warning("Ferry: this is vLLM %s, and FerryConnector was tested with %s only", here, TESTED)
