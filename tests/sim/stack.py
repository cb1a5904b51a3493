"""Registry, router, gateway and simulated engines, all real, in one process on free ports."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from kvlease.client.aio import Client
from kvlease.client.lengths import written
from kvlease.client.security import PLAIN, Security
from kvlease.connector.settings import Settings as ConnectorSettings
from kvlease.gateway import service as gateway
from kvlease.gateway.settings import Settings as GatewaySettings
from kvlease.registry import service as registry
from kvlease.registry.rules import Rules, Timing
from kvlease.registry.settings import Settings as RegistrySettings
from kvlease.router import service as router
from kvlease.router.settings import Settings as RouterSettings
from kvlease.rpc import Server
from kvlease.rpc.tracing import OFF, Spans
from kvlease.sim.fleet import Fleet
from kvlease.sim.instance import Instance
from kvlease.sim.latency import Latency
from kvlease.sim.scheduler import Limits
from kvlease.sim.settings import Settings

LATENCY = Latency(step=0.0005, prefill_token=5e-6, token=0.001, transfer=0.001, transfer_token=0)
QUICK = Timing(heartbeat=0.5, hold=6.0, claim=1.5, margin=0.2, least_claim=0.1)  # a heartbeat is missed after 0.5 s
NOWHERE = "127.0.0.1:1"


def connector(
    *, registry: str = NOWHERE, router: str = NOWHERE, wait: float = 2.0, bidirectional: bool = True
) -> ConnectorSettings:
    """Returns a connector's settings that wait longer for the control plane than a busy machine needs."""
    extra = {"kvlease_registry": registry, "kvlease_router": router, "kvlease_wait": written(wait)}
    return ConnectorSettings.of(extra | {"bidirectional_kv_xfer": bidirectional}, {})


def engine(role: str = "both", *, blocks: int = 512, prefix_caching: bool = True, **more: Any) -> Settings:
    """Returns the settings of a fast engine without a control plane."""
    told: dict[str, Any] = {"connector": connector(), "latency": LATENCY} | more
    return Settings(role=role, blocks=blocks, limits=Limits(prefix_caching=prefix_caching), **told)


class Stack:
    """What runs."""

    def __init__(self, fleet: Fleet, url: str, http: aiohttp.ClientSession, router: str) -> None:
        self.fleet, self.url, self.http, self.router = fleet, url, http, router

    def of(self, role: str) -> list[Instance]:
        return [instance for instance in self.fleet.instances if instance.settings.role == role]

    @property
    def prefill(self) -> Instance:
        return self.of("prefill")[0]

    @property
    def decode(self) -> Instance:
        return self.of("decode")[0]

    async def chat(self, messages: list[dict[str, Any]], conversation: str = "", **body: Any) -> dict[str, Any]:
        """Asks the gateway; fails unless it answers 200."""
        headers = {"x-session-id": conversation} if conversation else {}
        body = {"model": "sim", "messages": messages, **body}
        async with self.http.post(f"{self.url}/v1/chat/completions", json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            told: dict[str, Any] = await answer.json()
            return told


@asynccontextmanager
async def running(
    *,
    prefill: int = 1,
    decode: int = 1,
    timing: Timing = QUICK,
    one_way: str = "",
    wait: float = 2.0,
    spans: Spans = OFF,
    arrange: Callable[[list[Settings]], list[Settings]] = list,
    **more: Any,
) -> AsyncIterator[Stack]:
    """Runs so many engines of each role; *more* are settings of every engine. Those of the role *one_way* keep none.

    A claim waits *wait* seconds for a grant that is due.

    The services make *spans* of what they do. *arrange* may put engines behind shared addresses.
    """
    told = {"prefix_caching": False} | more
    async with (
        registry.create(RegistrySettings(rules=Rules(timing=timing, grant_due=wait))) as leases,
        Server("127.0.0.1:0", [leases], spans=spans) as leasing,
        router.create(RouterSettings(registry=leasing.address, refresh=0.05, wait=2.0)) as routes,
        Server("127.0.0.1:0", [routes], spans=spans) as routing,
    ):
        roles = ["prefill"] * prefill + ["decode"] * decode
        plane = {
            role: connector(registry=leasing.address, router=routing.address, wait=wait, bidirectional=role != one_way)
            for role in roles
        }
        engines = arrange([engine(role, connector=plane[role], **told) for role in roles])
        settings = GatewaySettings(
            listen="127.0.0.1:0", router=routing.address, registry=leasing.address, wait=2.0, grace=0.2
        )
        async with Fleet(engines) as fleet, gateway.create(settings, spans) as front, aiohttp.ClientSession() as http:
            await until(lambda: all(instance.engine.connector.link.connected for instance in fleet.instances))
            stack = Stack(fleet, front.url, http, routing.address)
            await answers(stack)
            await routes_to(routing.address, prefill=bool(prefill))
            yield stack


async def until(holds: Callable[[], bool], within: float = 20.0) -> None:
    """Waits until *holds* does."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 - what is waited for lies on several threads
            await asyncio.sleep(0.01)


async def routes_to(router: str, *, prefill: bool = True, security: Security = PLAIN) -> None:
    """Waits until the router has seen the engines, those for prefill too."""
    async with asyncio.timeout(20), Client(router=router, security=security) as client:
        while True:
            turn = await client.route("sim")
            await client.cancel(turn.ticket)
            if turn.prefill or not prefill:
                return
            await asyncio.sleep(0.05)


async def answers(stack: Stack) -> None:
    """Waits until the gateway has seen the engines."""
    async with asyncio.timeout(20):
        while True:
            async with stack.http.get(f"{stack.url}/health") as health:
                if health.status == 200:
                    return
            await asyncio.sleep(0.05)
