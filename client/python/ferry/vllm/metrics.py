# SPDX-License-Identifier: Apache-2.0
"""Transfers in vLLM's log ("KV Transfer metrics: …") and its /metrics (vllm:ferry_…)."""
from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from .api import KVConnectorPromMetrics, KVConnectorStats, create_metric_per_engine

_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30]
_BYTES = [2 ** (10 + i) for i in range(1, 25, 2)]

# Key in the data, kind, name in /metrics, documentation. Each value in a list of the data is one observation.
_METRICS = (
    ("read_seconds", "histogram", "vllm:ferry_read_seconds",
     "Time from the begin of a request's reads on one rank until this rank had the KV."),
    ("read_bytes", "histogram", "vllm:ferry_read_bytes", "Bytes of KV that one rank read for one request."),
    ("offer_seconds", "histogram", "vllm:ferry_offer_seconds",
     "Time from a prefill's offer on one rank until the decode had read it."),
    ("failed_reads", "counter", "vllm:ferry_failed_reads",
     "Requests whose KV one rank could not read; kv_load_failure_policy says what became of them."),
    ("unread_offers", "counter", "vllm:ferry_unread_offers",
     "Offers of one rank whose time was over before any decode had read them."),
    ("declined_offers", "counter", "vllm:ferry_declined_offers",
     "Offers of one rank that the decode said it would not read: its request was aborted while it waited."),
    ("failed_offers", "counter", "vllm:ferry_failed_offers",
     "Offers of one rank that could not be made, or whose reader failed."),
)


def _percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


@dataclass
class FerryStats(KVConnectorStats):
    """Observations of one interval."""

    def __post_init__(self) -> None:
        if not self.data:
            self.reset()

    def reset(self) -> None:
        self.data: dict[str, list[float]] = {key: [] for key, *_ in _METRICS}

    def record(self, key: str, value: float = 1) -> None:
        self.data[key].append(value)

    def take(self) -> FerryStats:
        taken = copy.copy(self)
        self.reset()
        return taken

    def is_empty(self) -> bool:
        return not any(self.data.values())

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        for key, values in other.data.items():
            self.data[key].extend(values)
        return self

    def reduce(self) -> dict[str, int | float]:
        seconds, sizes = self.data["read_seconds"], self.data["read_bytes"]
        reduced: dict[str, int | float] = {"Reads": len(seconds)}
        if seconds:
            reduced["Median read time (ms)"] = round(1e3 * _percentile(seconds, 0.5), 3)
            reduced["P90 read time (ms)"] = round(1e3 * _percentile(seconds, 0.9), 3)
            reduced["MB per read"] = round(sum(sizes) / len(sizes) / 2**20, 3)
            reduced["Throughput (MB/s)"] = round(sum(sizes) / 2**20 / max(sum(seconds), 1e-9), 1)
        reduced["Offers read"] = len(self.data["offer_seconds"])
        reduced["Failed reads"] = len(self.data["failed_reads"])
        reduced["Unread offers"] = len(self.data["unread_offers"])
        reduced["Declined offers"] = len(self.data["declined_offers"])
        reduced["Failed offers"] = len(self.data["failed_offers"])
        return reduced


class FerryPromMetrics(KVConnectorPromMetrics):
    def __init__(self, vllm_config: Any, metric_types: Any, labelnames: list[str],
                 per_engine_labelvalues: dict[int, list[object]]) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._metrics: dict[str, tuple[str, dict[int, Any]]] = {}
        for key, kind, name, documentation in _METRICS:
            if kind == "histogram":
                metric = self._histogram_cls(name=name, documentation=documentation, labelnames=labelnames,
                                             buckets=_BYTES if key.endswith("bytes") else _SECONDS)
            else:
                metric = self._counter_cls(name=name, documentation=documentation, labelnames=labelnames)
            self._metrics[key] = kind, create_metric_per_engine(metric, per_engine_labelvalues)

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for key, values in transfer_stats_data.items():
            kind, metric = self._metrics[key]
            for value in values:
                if kind == "histogram":
                    metric[engine_idx].observe(value)
                else:
                    metric[engine_idx].inc(value)
