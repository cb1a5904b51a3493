"""The frame: binding, health, reflection, stopping."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from kvlease.rpc import Draining, Server, Service
from kvlease.v1 import router_pb2, router_pb2_grpc
from tests.support.servers import Methods, a_service, health, reason_of, reflection, serving

NAME = "kvlease.v1.RoutingService"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Waiting:
    """Route answers when it is released; GetTicket waits until the server drains."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.released = asyncio.Event()
        self.draining = asyncio.Event()

    async def route(self, _request: router_pb2.RouteRequest, _context: Any) -> router_pb2.RouteResponse:
        self.entered.set()
        await self.released.wait()
        return router_pb2.RouteResponse(ticket_id="late but whole")

    async def get_ticket(self, _request: router_pb2.GetTicketRequest, _context: Any) -> router_pb2.GetTicketResponse:
        self.entered.set()
        await self.draining.wait()
        raise Draining

    def service(self) -> Service:
        methods: Methods = {
            "Route": (self.route, router_pb2.RouteRequest),
            "GetTicket": (self.get_ticket, router_pb2.GetTicketRequest),
        }
        return a_service(NAME, methods, drain=self.draining.set)


async def test_health_is_told_for_the_server_and_for_each_service() -> None:
    async with serving(Waiting().service()) as (_, channel):
        stub = health(channel)
        for name in ("", NAME):
            assert (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status == SERVING


async def test_reflection_lists_every_service() -> None:
    async with serving(Waiting().service()) as (_, channel):
        call = reflection(channel).ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        answer = await call.read()
        await call.done_writing()

    names = {service.name for service in answer.list_services_response.service}
    assert {NAME, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"} <= names


async def test_a_draining_server_says_so_first_and_lets_running_calls_end() -> None:
    servicer = Waiting()
    async with serving(servicer.service()) as (server, channel):
        watch = health(channel).Watch(health_pb2.HealthCheckRequest(service=NAME))
        assert (await watch.read()).status == SERVING
        running = asyncio.ensure_future(router_pb2_grpc.RoutingServiceStub(channel).Route(router_pb2.RouteRequest()))
        await servicer.entered.wait()

        drained = asyncio.ensure_future(server.drain(60.0))
        assert (await watch.read()).status == NOT_SERVING
        watch.cancel()
        servicer.released.set()

        assert (await running).ticket_id == "late but whole"
        await drained


async def test_draining_ends_calls_that_would_wait_longer_than_the_stop() -> None:
    servicer = Waiting()
    async with serving(servicer.service()) as (server, channel):
        stub = router_pb2_grpc.RoutingServiceStub(channel)
        running = asyncio.ensure_future(stub.GetTicket(router_pb2.GetTicketRequest()))
        await servicer.entered.wait()

        await server.drain(60.0)

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running
        assert (caught.value.code(), reason_of(caught.value)) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")


async def test_streams_are_cut_when_the_grace_is_over() -> None:
    async with serving(Waiting().service()) as (server, channel):
        watches = [health(channel).Watch(health_pb2.HealthCheckRequest()) for _ in range(10)]
        for watch in watches:
            await watch.read()

        await server.drain(0.05)

        for watch in watches:
            assert (await watch.read()).status == NOT_SERVING
            with pytest.raises(grpc.aio.AioRpcError):
                await watch.read()


async def test_a_signal_drains_the_server() -> None:
    async with serving(Waiting().service()) as (server, channel):
        watch = health(channel).Watch(health_pb2.HealthCheckRequest())
        await watch.read()
        serve = asyncio.ensure_future(server.serve_until_signal(0.0))
        await asyncio.sleep(0)

        os.kill(os.getpid(), signal.SIGTERM)

        await serve


async def test_a_taken_port_is_an_error() -> None:
    async with serving(Waiting().service()) as (server, _):
        with pytest.raises(OSError, match="cannot listen"):
            await Server(server.address, []).__aenter__()


async def test_a_unix_socket_is_an_address(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 's'}"
    async with Server(address, [Waiting().service()]) as server, grpc.aio.insecure_channel(address) as channel:
        answer = await health(channel).Check(health_pb2.HealthCheckRequest())

    assert server.address == address
    assert answer.status == SERVING
