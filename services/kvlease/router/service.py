"""Puts a router together, for its own process or for one with other services."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
from prometheus_client import CollectorRegistry

from kvlease.client.breaker import Breaker
from kvlease.client.engine import EngineRegistryClient
from kvlease.router.dispatched import Dispatched
from kvlease.router.fleet import Fleet
from kvlease.router.guard import GuardedRegistry
from kvlease.router.holdings import Holdings
from kvlease.router.metrics import Metrics
from kvlease.router.picker import Picker
from kvlease.router.placement import Placer
from kvlease.router.registry import Registry
from kvlease.router.registry_client import RegistryClient
from kvlease.router.roster import Roster
from kvlease.router.router import Router
from kvlease.router.servicer import RoutingServicer
from kvlease.router.settings import Settings
from kvlease.router.statuses import STATUSES
from kvlease.router.ticket import TicketKey
from kvlease.router.tickets import Tickets
from kvlease.router.turns import Turns
from kvlease.rpc import Service
from kvlease.v1.router_pb2_grpc import add_RoutingServiceServicer_to_server

NAME = "kvlease.v1.RoutingService"


@asynccontextmanager
async def create(settings: Settings, metrics: CollectorRegistry | None = None) -> AsyncIterator[Service]:
    """Gives the routing service, and keeps its picture of the engines fresh until left; counts in *metrics*."""
    client = EngineRegistryClient(settings.registry, security=settings.security)
    try:
        service, roster = assemble(settings, RegistryClient(client), metrics=Metrics(metrics))
        polling = asyncio.create_task(roster.run(settings.refresh))
        try:
            yield service
        finally:
            polling.cancel()
            await asyncio.wait([polling])
    finally:
        await client.close()


def assemble(
    settings: Settings,
    registry: Registry,
    *,
    metrics: Metrics | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Service, Roster]:
    """Builds the parts on any registry and clock; the roster is still to be run."""
    key = TicketKey(settings.ticket_key, *settings.other_ticket_keys)
    guarded = GuardedRegistry(registry, Breaker(clock), fair=settings.wait / 2)
    dispatched = Dispatched(clock)
    picker = Picker(random.Random())  # noqa: S311 - it spreads load and hides nothing
    tickets = Tickets(capacity=settings.tickets, forgot=lambda r: dispatched.ended(r.terms), clock=clock)

    def updated(fleet: Fleet) -> None:
        dispatched.heard(fleet)
        picker.keep_only(fleet.engines)

    roster = Roster(guarded, stale=settings.stale, updated=updated, clock=clock)
    router = Router(
        holdings=Holdings(guarded, capacity=settings.conversations),
        roster=roster,
        placer=Placer(overload=settings.overload, unseen=dispatched.count, picker=picker),
        tickets=tickets,
        dispatched=dispatched,
        key=key,
        lifetime=settings.lifetime,
        clock=clock,
    )
    turns = Turns(tickets=tickets, dispatched=dispatched, key=key, registry=guarded)
    servicer = RoutingServicer(router, turns, metrics or Metrics(), wait=settings.wait, clock=clock)

    def register(server: grpc.aio.Server) -> None:
        add_RoutingServiceServicer_to_server(servicer, server)

    return Service(NAME, register, STATUSES, drain=tickets.release), roster
