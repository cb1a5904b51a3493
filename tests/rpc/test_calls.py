"""Errors of servicers as callers and logs see them, over a real server."""

from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from kvlease.rpc import Malformed, Service, Status, Statuses, Violation, trusting
from kvlease.v1 import errors_pb2, router_pb2, router_pb2_grpc
from tests.conftest import Seen
from tests.support.servers import a_service, details_of, reason_of, serving

NAME = "kvlease.v1.RoutingService"
SECRET = "the secret"  # noqa: S105


class Busy(Exception):
    def __init__(self) -> None:
        super().__init__("too busy; come back")
        self.engine_id = "d0"
        self.retry_after = 1.5
        self._hidden = SECRET


class BusierStill(Busy):
    pass


def service(error: Exception | None = None) -> Service:
    """Has one method, Route: it raises the error, or answers the caller's tenant as ticket."""

    async def route(_request: router_pb2.RouteRequest, context: Any) -> router_pb2.RouteResponse:
        if error:
            raise error
        return router_pb2.RouteResponse(ticket=trusting(context).tenant)

    statuses: Statuses = {Busy: Status(grpc.StatusCode.RESOURCE_EXHAUSTED, errors_pb2.ERROR_REASON_BUDGET_EXHAUSTED)}
    return a_service(NAME, {"Route": (route, router_pb2.RouteRequest)}, statuses)


async def refusal(error: Exception | None, metadata: tuple[tuple[str, str], ...] = ()) -> grpc.aio.AioRpcError:
    async with serving(service(error)) as (_, channel):
        stub = router_pb2_grpc.RoutingServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Route(router_pb2.RouteRequest(), metadata=metadata)
        return caught.value


@pytest.fixture(params=[Busy, BusierStill])
async def busy(request: pytest.FixtureRequest) -> grpc.aio.AioRpcError:
    return await refusal(request.param())


async def test_a_domain_error_carries_its_reason_its_data_and_when_to_retry(busy: grpc.aio.AioRpcError) -> None:
    details = details_of(busy)

    assert busy.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert busy.details() == "too busy; come back"
    assert str(details["ErrorInfo"]).splitlines()[:2] == ['reason: "BUDGET_EXHAUSTED"', 'domain: "kvlease"']
    assert dict(details["ErrorInfo"].metadata) == {"engine_id": "d0"}  # type: ignore[attr-defined]
    assert details["RetryInfo"].retry_delay.ToMilliseconds() == 1500  # type: ignore[attr-defined]


async def test_a_malformed_request_names_its_fields() -> None:
    error = await refusal(Malformed(Violation("model", "must be given")))

    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason_of(error) == "MALFORMED"
    (violation,) = details_of(error)["BadRequest"].field_violations  # type: ignore[attr-defined]
    assert (violation.field, violation.description) == ("model", "must be given")


async def test_an_unknown_error_is_logged_once_with_its_traceback_and_shows_nothing() -> None:
    with capture_logs() as lines:
        error = await refusal(ValueError(SECRET))

    assert error.code() is grpc.StatusCode.INTERNAL
    assert reason_of(error) == "INTERNAL"
    assert SECRET not in str(error)
    (line,) = lines
    assert line["event"] == "call failed"
    assert str(line["exc_info"]) == SECRET


async def test_bytes_that_are_no_message_are_malformed() -> None:
    async with serving(service()) as (_, channel):
        call: Any = channel.unary_unary(f"/{NAME}/Route")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"\xff\xff\xff")

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason_of(caught.value) == "MALFORMED"


@pytest.mark.case(43)
async def test_a_very_long_error_arrives_cut_but_whole(seen: Seen) -> None:
    error = await refusal(Malformed(*(Violation(f"models[{i}]", "x" * 10_000) for i in range(1000))))

    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason_of(error) == "MALFORMED"
    seen(f"an error of 10 MB: {reason_of(error)}, {len(str(error.details()))} characters of it")


async def test_an_unknown_method_is_unimplemented() -> None:
    async with serving(service()) as (_, channel):
        call: Any = channel.unary_unary(f"/{NAME}/Nothing")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"")

    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(("metadata", "tenant"), [((), "default"), ((("x-kvlease-tenant", "t1"),), "t1")])
async def test_the_tenant_comes_from_the_metadata(metadata: tuple[tuple[str, str], ...], tenant: str) -> None:
    async with serving(service()) as (_, channel):
        answer = await router_pb2_grpc.RoutingServiceStub(channel).Route(router_pb2.RouteRequest(), metadata=metadata)

    assert answer.ticket == tenant


@pytest.mark.parametrize("tenants", [("",), ("x" * 257,), ("a", "b")])
async def test_a_tenant_is_named_once_and_short(tenants: tuple[str, ...]) -> None:
    error = await refusal(None, tuple(("x-kvlease-tenant", tenant) for tenant in tenants))

    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
