# SPDX-License-Identifier: Apache-2.0
"""vLLM's KV cache over Ferry: prefill in one instance, decode in another.

    pip install ferry[vllm]
    vllm serve MODEL --kv-transfer-config '{"kv_connector":"FerryConnector","kv_role":"kv_both"}'

connector  FerryConnector, of which vLLM makes one in the scheduler and one in each rank
scheduler  which requests are offered, loaded and dropped
rank       the offers and reads of one rank, by one ferry.Worker
cache      where the blocks of a KV cache are in memory, and memory of Ferry for it
handover   kv_transfer_params: what a prefill says to a decode, and what of it is believed
metrics    transfers in vLLM's log and its /metrics
api        what is used of vLLM, and the refusal where it is missing

Where the entry point is not installed, "kv_connector_module_path":"ferry.vllm" in the configuration does the same.
"""
from __future__ import annotations

import contextlib
import importlib
import logging
import sys
from typing import Any


def register() -> None:
    """The entry point of vllm.general_plugins. vLLM calls it in each of its processes, at times more than once."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    with contextlib.suppress(ValueError):  # it is registered
        KVConnectorFactory.register_connector("FerryConnector", "ferry.vllm.connector", "FerryConnector")
    if "dynamo.vllm" in sys.modules:
        _tell_dynamo()


def _tell_dynamo() -> None:
    """In a worker of NVIDIA Dynamo, whose table of connectors says how each one's parameters travel: as NixlConnector's."""
    try:
        table = importlib.import_module("dynamo.vllm.kv_connector_protocols")
        table.KV_CONNECTOR_PROTOCOLS.setdefault("FerryConnector", table.NixlConnectorProtocol)
    except (ImportError, AttributeError) as error:
        logging.getLogger("vllm.ferry").warning("Ferry: this version of Dynamo is not known, and will refuse "
                                                "FerryConnector: %s", error)


def __getattr__(name: str) -> Any:
    if name == "FerryConnector":  # at its first use: it imports vLLM
        from .connector import FerryConnector
        return FerryConnector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
