"""Fake engines that router and registry know, for turns that a client drives itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kvlease.client.aio import Client
from kvlease.client.testing import FakeRegistry, FakeRouter
from kvlease.client.types import EngineRole
from tests.support.openai_engine import MODEL, FakeEngine, engines

MESSAGES = [{"role": "user", "content": "Where are you?"}]


class Stack:
    """One prefill and one decode engine; *other* decodes too, once it is registered."""

    def __init__(self, registry: FakeRegistry, router: FakeRouter, made: dict[str, FakeEngine]) -> None:
        self.registry, self.router = registry, router
        self.prefill, self.decode, self.other = made["prefill"], made["decode"], made["other"]
        self.register("prefill", self.prefill, EngineRole.PREFILL)
        self.register("decode", self.decode, EngineRole.DECODE)

    def register(self, name: str, engine: FakeEngine, role: EngineRole) -> None:
        self.registry.add_engine(name, role=role, model=MODEL, http_url=engine.url)

    def client(self) -> Client:
        return Client(registry=self.registry.address, router=self.router.address)

    async def called(self, method: str, count: int = 1) -> list[object]:
        """Waits until the router was asked so often; gives what it was asked."""
        assert await asyncio.to_thread(self.router.wait_for, method, count)
        return [call.request for call in self.router.calls if call.method == method]


@asynccontextmanager
async def running() -> AsyncIterator[Stack]:
    async with engines("prefill", "decode", "other") as made:
        with FakeRegistry() as registry, FakeRouter(registry) as router:
            yield Stack(registry, router, made)
