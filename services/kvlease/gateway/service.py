"""Puts a gateway together, for its own process or for one with other services."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import structlog

from kvlease.client.breaker import Breaker
from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.gateway.app import App, EndsConversations, refuse
from kvlease.gateway.background import Background
from kvlease.gateway.directory import Directory
from kvlease.gateway.engines import Engines, Lists
from kvlease.gateway.http.pool import Pool
from kvlease.gateway.http.server import Server
from kvlease.gateway.metrics import Metrics
from kvlease.gateway.plan import Planner, Routes
from kvlease.gateway.plane import Plane
from kvlease.gateway.renewal import InFlight, Renewer, Renews
from kvlease.gateway.settings import Settings
from kvlease.gateway.status import history
from kvlease.gateway.status.routes import ListsLeases, StatusPage
from kvlease.gateway.tenancy import tenancy
from kvlease.gateway.tickets import Ends, Tickets
from kvlease.rpc import address
from kvlease.rpc.tls import https
from kvlease.rpc.tracing import OFF, Spans

_LOOK = 0.5  # between two looks at the engines
_TICK = 1.0
_LAST_WORDS = 2.0  # for tickets still to be cancelled when the gateway stops

log = structlog.get_logger()


class Router(Routes, Ends, Protocol):
    """What the gateway asks of a router."""


class Registry(Lists, ListsLeases, Renews, EndsConversations, Protocol):
    """What the gateway asks of a registry."""


class Gateway:
    """A gateway that serves."""

    def __init__(self, server: Server, url: str, grace: float) -> None:
        self.url = url
        self._server = server
        self._grace = grace

    async def drain(self) -> None:
        """Takes no new request and lets those in flight end, within the grace."""
        await self._server.drain(self._grace)


@asynccontextmanager
async def create(settings: Settings, spans: Spans = OFF) -> AsyncIterator[Gateway]:
    """Serves on the running event loop until left; other services may share the loop.

    Leaving drains it. Raises OSError when the address is taken, and for keys and certificates that make no sense.
    """
    router = EngineRouterClient(settings.router, security=settings.security)
    registry = EngineRegistryClient(settings.registry, security=settings.security)
    try:
        async with assemble(settings, router, registry, spans=spans) as gateway:
            yield gateway
    finally:
        await router.close()
        await registry.close()


@asynccontextmanager
async def assemble(
    settings: Settings,
    router: Router,
    registry: Registry,
    *,
    spans: Spans = OFF,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Gateway]:
    """Does what `create` does with any router and registry."""
    breaker = Breaker(clock)
    directory = Directory(memory=settings.memory, clock=clock)
    background = Background()
    pool = Pool(
        clock=clock,
        connect_timeout=settings.connect_timeout,
        silence_timeout=settings.silence_timeout,
        ca=settings.engine_ca,
    )
    plane = Plane(
        settings=settings,
        planner=Planner(router, directory, breaker),
        tickets=Tickets(router, breaker, background),
        pool=pool,
        directory=directory,
        metrics=Metrics(clock),
        background=background,
        clock=clock,
    )
    in_flight = InFlight(settings.lease_ttl / 3, clock)
    engines, renewer = Engines(registry, directory, pool), Renewer(registry, in_flight)
    told = tenancy(settings.protection)
    page = StatusPage(engines, registry, plane.metrics, told)
    app = App(plane, registry, in_flight, told, page, spans=spans)
    tls, look_at_certificate = https(settings.protection.tls) if settings.protection.tls else (None, lambda: None)
    server = Server(app, refuse=refuse, limits=settings.limits, clock=clock, check=told.check)

    async def sweep() -> None:
        server.sweep()
        pool.sweep()
        look_at_certificate()

    host, _, port = settings.listen.rpartition(":")
    bound = await server.listen(host.strip("[]"), int(port), tls)
    periodic = ((_LOOK, engines.look), (_TICK, renewer.renew), (_TICK, sweep), (history.EVERY, page.look))
    loops = [asyncio.create_task(_every(seconds, act)) for seconds, act in periodic]
    gateway = Gateway(server, f"http{'s' if tls else ''}://{address.with_port(settings.listen, bound)}", settings.grace)
    try:
        yield gateway
    finally:
        await gateway.drain()
        await background.drain(_LAST_WORDS)
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        pool.close()


async def _every(seconds: float, act: Callable[[], Awaitable[None]]) -> None:
    """Does something again and again; a fault of ours is logged and does not end it."""
    while True:
        try:
            await act()
        except Exception:
            log.exception("periodic work failed")
        await asyncio.sleep(seconds)
