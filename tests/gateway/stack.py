"""A gateway on a free port, between fake engines and a fake control plane."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from kvlease.client.testing import FakeRegistry, FakeRouter
from kvlease.client.types import EngineRole
from kvlease.gateway.service import Gateway, create
from kvlease.gateway.settings import Settings
from tests.support.openai_engine import MODEL, FakeEngine

MESSAGES = [{"role": "user", "content": "Where are you?"}]


class Stack:
    """One prefill and one decode engine behind a gateway, and another decode engine that nobody knows of yet."""

    def __init__(self) -> None:
        self.prefill, self.decode, self.other = FakeEngine(), FakeEngine(), FakeEngine()
        self.registry = FakeRegistry()
        self.router = FakeRouter(self.registry)
        self.gateway: Gateway
        self.http: httpx.AsyncClient

    def register(self, name: str, engine: FakeEngine, role: EngineRole) -> None:
        """Makes an engine known to registry and router."""
        self.registry.add_engine(name, role=role, model=MODEL)
        self.registry.engines[name].engine.http_url = engine.url

    def calls(self, method: str) -> list[Any]:
        """Returns what router and registry were asked."""
        return [call.request for call in (*self.router.calls, *self.registry.calls) if call.method == method]

    async def called(self, method: str, count: int = 1) -> list[Any]:
        """Waits until router or registry was asked so often."""
        server = self.registry if method in ("RenewLeases", "ListEngines") else self.router
        assert await asyncio.to_thread(server.wait_for, method, count)
        return self.calls(method)

    async def chat(self, **body: Any) -> httpx.Response:
        """Asks for a chat completion."""
        return await self.http.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES, **body})


@asynccontextmanager
async def running(*, verify: ssl.SSLContext | bool = True, **settings: Any) -> AsyncIterator[Stack]:
    """Runs a stack whose gateway has these settings, and a client that trusts as *verify* says."""
    stack = Stack()
    engines = (stack.prefill, stack.decode, stack.other)
    for engine in engines:
        await engine.start()
    stack.register("prefill", stack.prefill, EngineRole.PREFILL)
    stack.register("decode", stack.decode, EngineRole.DECODE)
    with stack.registry, stack.router:
        told: dict[str, Any] = {"listen": "127.0.0.1:0", "grace": 0.2, "wait": 2.0} | settings
        made = Settings(**told, router=stack.router.address, registry=stack.registry.address)
        try:
            async with (
                create(made) as stack.gateway,
                httpx.AsyncClient(base_url=stack.gateway.url, timeout=20, verify=verify) as stack.http,
            ):
                await healthy(stack.http)
                yield stack
        finally:
            for engine in engines:
                await engine.stop()


async def healthy(http: httpx.AsyncClient) -> None:
    """Waits until the gateway has seen the engines."""
    async with asyncio.timeout(10):
        while (await http.get("/health")).status_code != httpx.codes.OK:
            pass
