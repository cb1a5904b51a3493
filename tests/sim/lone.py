"""A single engine without a control plane, and an HTTP client of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from kvlease.sim.fleet import Fleet
from kvlease.sim.instance import Instance
from tests.sim.stack import engine

PROMPT = [{"role": "user", "content": "a question of some length, so that there are several blocks of it " * 4}]


class Lone:
    """An engine and its client."""

    def __init__(self, instance: Instance, http: aiohttp.ClientSession) -> None:
        self.instance, self.http = instance, http

    async def post(self, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
        async with self.http.post(path, json=body) as answer:
            return answer.status, await answer.json()

    async def chat(self, **body: Any) -> dict[str, Any]:
        status, answer = await self.post("/v1/chat/completions", **{"messages": PROMPT} | body)
        assert status == 200, answer
        return answer

    async def text(self, path: str) -> str:
        async with self.http.get(path) as answer:
            assert answer.status == 200
            told: str = await answer.text()
            return told

    async def metric(self, name: str) -> float:
        """Reads one of the engine's counters."""
        lines = (await self.text("/metrics")).splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))


@asynccontextmanager
async def lone(**settings: Any) -> AsyncIterator[Lone]:
    """Runs one engine."""
    async with Fleet([engine(**settings)]) as fleet, aiohttp.ClientSession(fleet.instances[0].url) as http:
        yield Lone(fleet.instances[0], http)
