import inspect
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import grpc
import pytest
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.duration_pb2 import Duration

from kvlease.client.engine import TIMEOUT, EngineRegistryClient, EngineRouterClient
from kvlease.client.errors import DeadlineExceeded, SessionNotFound, Unimplemented
from kvlease.client.testing import FakeServer, Unary
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2

BIG = 20 * 1024 * 1024
ROUNDING = 0.5  # gRPC sends deadlines in coarse units


def heartbeat(request: registry_pb2.HeartbeatRequest, _tenant: str) -> registry_pb2.HeartbeatResponse:
    return registry_pb2.HeartbeatResponse(number=request.received_number + 1)


def claim(request: registry_pb2.ClaimLeaseRequest, _tenant: str) -> registry_pb2.ClaimLeaseResponse:
    lease = lease_pb2.Lease(lease_id=request.lease_id, handle=lease_pb2.Handle(body=bytes(BIG)))
    return registry_pb2.ClaimLeaseResponse(lease=lease)


def watch(
    _request: registry_pb2.WatchLeasesRequest, _tenant: str, _context: grpc.ServicerContext
) -> Iterator[registry_pb2.WatchLeasesResponse]:
    yield registry_pb2.WatchLeasesResponse(event=registry_pb2.LEASE_EVENT_SYNCED)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    unary: dict[str, Unary] = {"Heartbeat": heartbeat, "ClaimLease": claim}
    with FakeServer("kvlease.v1.RegistryService", registry_pb2, unary, {"WatchLeases": watch}) as server:
        yield server


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[EngineRegistryClient]:
    client = EngineRegistryClient(server.address, tenant="a")
    yield client
    await client.close()


@pytest.mark.parametrize(
    ("client", "service"),
    [
        (EngineRegistryClient, registry_pb2.DESCRIPTOR.services_by_name["RegistryService"]),
        (EngineRouterClient, router_pb2.DESCRIPTOR.services_by_name["RoutingService"]),
    ],
)
def test_every_rpc_has_its_method(client: type, service: ServiceDescriptor) -> None:
    rpcs = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method.name).lower() for method in service.methods}
    methods = {name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}

    assert methods - {"close"} == rpcs
    for name in rpcs:
        assert {"request", "timeout", "tenant"} <= inspect.signature(getattr(client, name)).parameters.keys()


async def test_an_answer_is_the_message_itself(client: EngineRegistryClient) -> None:
    assert await client.heartbeat(registry_pb2.HeartbeatRequest(received_number=4)) == registry_pb2.HeartbeatResponse(
        number=5
    )


async def test_a_handle_of_20_mib_passes(client: EngineRegistryClient) -> None:
    answer = await client.claim_lease(registry_pb2.ClaimLeaseRequest(lease_id="l"))

    assert len(answer.lease.handle.body) == BIG


async def test_a_refusal_is_typed_and_not_tried_again(client: EngineRegistryClient, server: FakeServer) -> None:
    server.fail_next(SessionNotFound("gone"))

    with pytest.raises(SessionNotFound):
        await client.heartbeat(registry_pb2.HeartbeatRequest())

    assert len(server.calls) == 1


async def test_an_rpc_that_the_server_lacks_is_unimplemented(client: EngineRegistryClient) -> None:
    with pytest.raises(Unimplemented):
        await client.list_engines(registry_pb2.ListEnginesRequest())


async def test_a_call_may_be_made_for_another_tenant(client: EngineRegistryClient, server: FakeServer) -> None:
    await client.heartbeat(registry_pb2.HeartbeatRequest())
    await client.heartbeat(registry_pb2.HeartbeatRequest(), tenant="b")

    assert [call.tenant for call in server.calls] == ["a", "b"]


async def test_a_call_ends_at_its_timeout(client: EngineRegistryClient, server: FakeServer) -> None:
    server.freeze()

    with pytest.raises(DeadlineExceeded):
        await client.heartbeat(registry_pb2.HeartbeatRequest(), timeout=0.05)
    with pytest.raises(DeadlineExceeded):
        async with aclosing(client.watch_leases(registry_pb2.WatchLeasesRequest(), timeout=0.05)) as events:
            await anext(events)


async def test_every_call_has_a_deadline(client: EngineRegistryClient, server: FakeServer) -> None:
    await client.heartbeat(registry_pb2.HeartbeatRequest())

    assert 0.0 < (server.calls[0].timeout or 0.0) < TIMEOUT + ROUNDING


async def test_a_call_whose_server_may_wait_is_given_that_time_too(
    client: EngineRegistryClient, server: FakeServer
) -> None:
    await client.claim_lease(registry_pb2.ClaimLeaseRequest(wait=Duration(seconds=30)))

    assert 30.0 < (server.calls[0].timeout or 0.0) < 30.0 + TIMEOUT + ROUNDING
