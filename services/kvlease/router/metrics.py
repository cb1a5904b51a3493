"""What the router counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter

from kvlease.rpc.telemetry import PrefillMetrics
from kvlease.v1 import router_pb2


class Metrics:
    """Counters of one router."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Counts in *registry*; by default for nobody."""
        registry = registry or CollectorRegistry()
        routes = Counter("kvlease_router_routes", "Turns routed, by who works on them.", ["mode"], registry=registry)
        self._modes = {
            number: routes.labels(name.removeprefix("ROUTE_MODE_").lower())
            for name, number in router_pb2.RouteMode.items()
            if number
        }
        self.prefilled = PrefillMetrics(registry, "kvlease_router").prefilled

    def routed(self, mode: router_pb2.RouteMode.ValueType) -> None:
        """Counts a turn."""
        self._modes[mode].inc()
