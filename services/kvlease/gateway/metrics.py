"""What the gateway counts, for Prometheus. No label takes what a client chooses."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from kvlease.gateway.status.history import Totals
from kvlease.rpc.telemetry import PrefillMetrics

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60)


class Metrics:
    """Counters of one gateway, in a registry of its own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._registry = CollectorRegistry()
        self._requests = self._counter("requests", "Requests answered, by route and status.", "route", "code")
        self.in_flight = Gauge("kvlease_gateway_in_flight", "Requests being served.", registry=self._registry)
        self._first_byte = Histogram(
            "kvlease_gateway_first_byte_seconds",
            "From the arrival of a request for a stream to the first event of its answer.",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._prefill = PrefillMetrics(self._registry, "kvlease_gateway")
        self.prefilled = self._prefill.prefilled
        self.decode_failures = self._counter("decode_failures", "Answers that decode failed to give, or to end.")
        self.prefill_failures = self._counter("prefill_failures", "Prefill legs that failed; decode worked alone.")
        self.unrouted = self._counter("unrouted", "Turns served without the router.")
        self.disconnects = self._counter("disconnects", "Requests whose client left before the answer was whole.")

    def answered(self, route: str, code: int) -> None:
        """Counts a request."""
        self._requests.labels(route, str(code)).inc()

    def first_byte(self, begun: float) -> None:
        """Notes that the stream for a request that came at *begun* begins now."""
        self._first_byte.observe(self._clock() - begun)

    def exposition(self) -> bytes:
        """Returns all of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def totals(self) -> Totals:
        """Returns what the status page follows."""
        tokens = {source: _values(counter, "_total")[0][1] for source, counter in self._prefill.sources.items()}
        first_byte = [(float(labels["le"]), value) for labels, value in _values(self._first_byte, "_bucket")]
        return Totals(tokens, first_byte)

    def misses(self) -> dict[str, float]:
        """Returns how often each reason kept prefill from reusing more."""
        return {labels["reason"]: value for labels, value in _values(self._prefill.misses, "_total")}

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"kvlease_gateway_{name}", text, labels, registry=self._registry)


def _values(metric: Counter | Histogram, suffix: str) -> list[tuple[dict[str, str], float]]:
    """Returns the labels and values of a metric's samples whose names end so."""
    samples = (sample for family in metric.collect() for sample in family.samples)
    return [(sample.labels, sample.value) for sample in samples if sample.name.endswith(suffix)]
