"""Registry, router and gateway in one process, with engines on this machine or from elsewhere."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import uvloop

from kvlease.cli.beside import Engines, Tell
from kvlease.client.aio import Client
from kvlease.client.errors import ModelNotFound, NoEngine
from kvlease.client.types import RouteMode
from kvlease.gateway import service as gateway
from kvlease.gateway.settings import Settings as GatewaySettings
from kvlease.local import model, page
from kvlease.local.engine import EngineFailed
from kvlease.local.launch import ControlPlane
from kvlease.registry import service as registry
from kvlease.registry.rules import Rules
from kvlease.registry.settings import Settings as RegistrySettings
from kvlease.router import service as router
from kvlease.router.settings import Settings as RouterSettings
from kvlease.rpc import OPEN, Protection, Server, address, stop_signal, tracing
from kvlease.rpc.logging import LogFormat, configure
from kvlease.rpc.tracing import Spans

_POLL = 0.25  # seconds
_REGISTERED_WITHIN = 30.0  # seconds after an engine is healthy
_FIRST_REQUEST = 120.0  # seconds that the first request of all may take
_GRACE = 5.0  # seconds that answers in flight get at the end


Make: TypeAlias = Callable[[ControlPlane], Engines]
"""What makes the engines, once it is known where the services listen."""


@dataclass(frozen=True, slots=True)
class Services:
    """Where the services listen, as host:port (port 0: any free one), and how long they may keep a request waiting."""

    registry: str
    router: str
    gateway: str
    wait: float  # seconds
    rules: Rules
    protection: Protection = OPEN

    def __post_init__(self) -> None:
        """Raises ValueError for what is no address, or can be reached by others although nobody allowed it."""
        for listen in (self.registry, self.router, self.gateway):
            address.check(listen)
            if not (self.protection.insecure or address.is_local(listen)):
                raise ValueError(
                    f"{listen} can be reached by others: give --insecure, or run each service by itself, with TLS"
                )


def serve_until_signal(services: Services, engines: Make | None, tell: Tell, *, log: Path) -> None:
    """Serves until SIGINT or SIGTERM, and ends all that it started; the services log to a file. Raises as `serve`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as stream:
        configure(LogFormat.JSON, stream=stream)
        uvloop.run(_until_signal(services, engines, tell, log))


async def serve(services: Services, engines: Make | None, tell: Tell, *, log: Path) -> None:
    """Serves until cancelled; engines of its own that end are started again. Tells of *log* as where services log to.

    Raises:
        EngineFailed: an engine ended before it was ready, or gave no answer.
        OSError: an address cannot be listened on.
    """
    with tracing.exporting("kvlease", os.environ) as spans:
        await _serve(services, engines, tell, spans, log)


async def _serve(services: Services, engines: Make | None, tell: Tell, spans: Spans, log: Path) -> None:
    async with _control_plane(services, spans) as control:
        own = engines(control) if engines else None
        settings = GatewaySettings(
            listen=services.gateway,
            router=control.router,
            registry=control.registry,
            wait=services.wait,
            grace=_GRACE,
            protection=services.protection,
        )
        async with own.running(tell) if own else nullcontext(), gateway.create(settings, spans) as front:
            tell("listening", registry=control.registry, router=control.router, gateway=front.url, log=str(log))
            await _until_ready(own, front.url, control, tell)
            tell("ready", url=front.url)
            await (own.supervise(tell) if own else asyncio.Event().wait())


async def _until_signal(services: Services, engines: Make | None, tell: Tell, log: Path) -> None:
    serving = asyncio.create_task(serve(services, engines, tell, log=log))
    signalled = asyncio.create_task(stop_signal())
    await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
    if signalled.done():
        tell("stopping")
        serving.cancel()
        await asyncio.wait({serving})
    else:
        signalled.cancel()
    if not serving.cancelled():
        serving.result()


@asynccontextmanager
async def _control_plane(services: Services, spans: Spans) -> AsyncIterator[ControlPlane]:
    async with (
        registry.create(
            RegistrySettings(listen=services.registry, rules=services.rules, protection=services.protection)
        ) as leases,
        Server(services.registry, [leases], spans=spans) as leasing,
        router.create(
            RouterSettings(
                listen=services.router,
                registry=leasing.address,
                wait=services.wait,
                protection=services.protection,
            )
        ) as routes,
        Server(services.router, [routes], spans=spans) as routing,
    ):
        yield ControlPlane(leasing.address, routing.address)


async def _until_ready(own: Engines | None, url: str, control: ControlPlane, tell: Tell) -> None:
    """Waits until a request would succeed: with engines of our own, until one did. Then the gateway lists models."""
    if own:
        await own.ready(tell)
        await _until_known(own, control)
        await asyncio.to_thread(_first_request, f"{url}/v1/completions")
    else:
        tell("waiting", registry=control.registry, router=control.router)
    await _until(lambda: asyncio.to_thread(page.answers, f"{url}/health"))


async def _until_known(own: Engines, control: ControlPlane) -> None:
    """Waits until the registry lists all engines, and the router, which looks now and then, uses both kinds."""

    async def known() -> bool:
        listed = {engine.ref.engine_id for engine in await client.list_engines()}
        return listed.issuperset(own.names) and await _routes_both(client)

    async with Client(registry=control.registry, router=control.router) as client:
        try:
            await asyncio.wait_for(_until(known), _REGISTERED_WITHIN)
        except TimeoutError:
            raise EngineFailed(f"not every engine registered within {_REGISTERED_WITHIN:g} s: see their logs") from None


async def _routes_both(client: Client) -> bool:
    try:
        turn = await client.route(model.NAME)
    except (ModelNotFound, NoEngine):
        return False
    await client.cancel(turn.ticket)
    return turn.mode is RouteMode.PREFILL_DECODE


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110 - what is waited for lies in other processes
        await asyncio.sleep(_POLL)


def _first_request(url: str) -> None:
    try:
        page.post(url, {"model": model.NAME, "prompt": "kvlease", "max_tokens": 1}, timeout=_FIRST_REQUEST)
    except OSError as error:
        raise EngineFailed(f"the first request was not answered: {error}") from error
