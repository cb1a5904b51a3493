"""Metrics of a server, fetched as Prometheus does."""

from collections.abc import Iterator

import grpc
import httpx
import pytest
from prometheus_client import CollectorRegistry

from kvlease.router.metrics import Metrics as RouterMetrics
from kvlease.rpc import Malformed, Violation, telemetry
from kvlease.rpc.telemetry import PrefillMetrics, Telemetry
from kvlease.v1 import lease_pb2, router_pb2, router_pb2_grpc
from tests.support.servers import a_service, serving


@pytest.fixture
def seen() -> Iterator[Telemetry]:
    with telemetry.served("127.0.0.1:0") as made:
        assert made
        yield made


def values(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric, by its labels' values."""
    samples = (sample for family in registry.collect() for sample in family.samples)
    return {tuple(sample.labels.values()): sample.value for sample in samples if sample.name == name}


def test_what_is_counted_can_be_fetched(seen: Telemetry) -> None:
    RouterMetrics(seen.registry).routed(router_pb2.ROUTE_MODE_DECODE_ONLY)

    told = httpx.get(f"http://{seen.address}/metrics").text

    assert 'kvlease_router_routes_total{mode="decode_only"} 1.0' in told


def test_nothing_is_served_where_nobody_asked() -> None:
    with telemetry.served("") as seen:
        assert seen is None


@pytest.mark.parametrize("address", ["0.0.0.0:9000", "example:9000", "9000"])
def test_metrics_are_for_this_machine_unless_others_are_allowed(address: str) -> None:
    with pytest.raises(ValueError, match=r"insecure|listen address"):
        telemetry.check(address, insecure=False)


def test_an_address_that_is_taken_is_told(seen: Telemetry) -> None:
    with pytest.raises(OSError, match="in use"), telemetry.served(seen.address):
        raise AssertionError


def test_prompts_are_counted_by_how_prefill_came_by_them() -> None:
    registry = CollectorRegistry()
    metrics = PrefillMetrics(registry, "x")

    metrics.prefilled(
        lease_pb2.PrefillReport(reused_tokens=5, local_tokens=3, computed_tokens=2, miss_reason="NO_MATCH")
    )
    metrics.prefilled(lease_pb2.PrefillReport(computed_tokens=2))

    assert values(registry, "x_prompt_tokens_total") == {("reused",): 5, ("local",): 3, ("computed",): 4}
    assert values(registry, "x_misses_total") == {("NO_MATCH",): 1}
    assert values(registry, "x_added_wait_seconds_count") == {(): 2}


async def test_calls_are_counted_by_method_and_status(seen: Telemetry) -> None:
    async def route(request: router_pb2.RouteRequest, _context: object) -> router_pb2.RouteResponse:
        if not request.model:
            raise Malformed(Violation("model", "must be given"))
        return router_pb2.RouteResponse()

    name = "kvlease.v1.RoutingService"
    service = a_service(name, {"Route": (route, router_pb2.RouteRequest)})
    async with serving(service, telemetry=seen) as (_, channel):
        stub = router_pb2_grpc.RoutingServiceStub(channel)
        await stub.Route(router_pb2.RouteRequest(model="m"))
        await stub.Route(router_pb2.RouteRequest(model="m"))
        with pytest.raises(grpc.aio.AioRpcError, match="must be given"):
            await stub.Route(router_pb2.RouteRequest())

    assert values(seen.registry, "kvlease_rpc_total") == {("Route", "OK"): 2, ("Route", "INVALID_ARGUMENT"): 1}
    assert values(seen.registry, "kvlease_rpc_seconds_count") == {("Route",): 2}
