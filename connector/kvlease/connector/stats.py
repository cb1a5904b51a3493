"""The connector's counts on vLLM's own `/metrics`, beside NIXL's: `kvlease_connector_*`.

vLLM carries a connector's stats from its scheduler and its workers to the process that serves HTTP, as plain data.
"""

from typing import Any, cast

from prometheus_client import REGISTRY
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.stats import NixlKVConnectorStats, NixlPromMetrics

from kvlease.connector.counts import COUNTERS, GAUGES, HISTOGRAMS, PREFIX, Delta, merge

OURS = "kvlease"  # the key of our delta beside NIXL's lists


class LeaseStats(NixlKVConnectorStats):  # type: ignore[misc]
    """NIXL's stats, and ours."""

    @classmethod
    def of(cls, ours: Delta) -> "LeaseStats":
        """Makes stats of our counts alone."""
        stats = cls()
        stats.data[OURS] = ours
        return stats

    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return OURS not in self.data and super().is_empty()

    def aggregate(self, other: Any) -> "LeaseStats":
        """Adds later stats, or those of another rank."""
        theirs = dict(other.data)
        if (new := cast("Delta | None", theirs.pop(OURS, None))) is not None:
            merge(self.data.setdefault(OURS, Delta(counts={}, seconds={}, levels={})), new)
        super().aggregate(NixlKVConnectorStats(data=theirs))
        return self

    def reduce(self) -> dict[str, int | float]:
        """Returns what vLLM's log line says of an interval."""
        said = {} if super().is_empty() else super().reduce()
        if ours := cast("Delta | None", self.data.get(OURS)):
            tokens = ours["counts"].get("prompt_tokens", {})
            said |= {"Leases": ours["levels"]["leases"], "Tokens reused": tokens.get("reused", 0)}
        return cast("dict[str, int | float]", said)


class LeaseMetrics(NixlPromMetrics):  # type: ignore[misc]
    """NIXL's metrics, and ours with vLLM's labels before our own."""

    def __init__(self, config: Any, metric_types: Any, labels: list[str], by_engine: dict[int, list[object]]) -> None:
        """Takes what vLLM's base class takes."""
        super().__init__(config, metric_types, labels, by_engine)
        _forget()
        self._counters = {
            name: self._counter_cls(name=PREFIX + name, documentation=text, labelnames=[*labels, label])
            for name, (label, text) in COUNTERS.items()
        }
        self._histograms = {
            name: self._histogram_cls(name=PREFIX + name, documentation=text, labelnames=labels, buckets=buckets)
            for name, (text, buckets) in HISTOGRAMS.items()
        }
        self._gauges = {
            name: self._gauge_cls(
                name=PREFIX + name, documentation=text, labelnames=labels, multiprocess_mode="mostrecent"
            )
            for name, text in GAUGES.items()
        }
        for metric in (*self._gauges.values(), *self._histograms.values()):
            for values in by_engine.values():
                metric.labels(*values)  # seen at 0 before anything happens

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        """Takes the stats of one engine's step."""
        super().observe(transfer_stats_data, engine_idx)
        ours = cast("Delta | None", transfer_stats_data.get(OURS))
        if ours is None:
            return
        labels = self.per_engine_labelvalues[engine_idx]
        for name, values in ours["counts"].items():
            for value, by in values.items():
                self._counters[name].labels(*labels, value).inc(by)
        for name, seconds in ours["seconds"].items():
            for observed in seconds:
                self._histograms[name].labels(*labels).observe(observed)
        for name, level in ours["levels"].items():
            self._gauges[name].labels(*labels).set(level)


def _forget() -> None:
    """Takes the metrics of an earlier engine of this process away, as vLLM does with its own."""
    for collector in list(REGISTRY._collector_to_names):
        if getattr(collector, "_name", "").startswith(PREFIX):
            REGISTRY.unregister(collector)
