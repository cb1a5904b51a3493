"""Two of each service as processes of their own, a Redis behind them, and simulated engines in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp

from kvlease.local import ports
from kvlease.sim import answer, tokens
from kvlease.sim.fleet import Fleet
from tests.e2e.processes import Service
from tests.sim.stack import connector, engine, until
from tests.support.redis import RedisServer

TIMES = ("--heartbeat", "500ms", "--hold", "6s", "--claim", "1500ms", "--margin", "200ms", "--least-claim", "100ms")
REFRESH = ("--refresh", "50ms")
WAIT = ("--wait", "2s")
KEY = "0123456789abcdef0123456789abcdef"
WORDS = 20
SYSTEM = {"role": "system", "content": "You are an engine that pretends. " * 20}


class Replicas:
    """What runs."""

    def __init__(self, redis: RedisServer, logs: Path, http: aiohttp.ClientSession) -> None:
        self.redis = redis
        self.http = http
        self.fleet: Fleet
        self.answered = 0
        places = {name: ports.free(2) for name in ("registry", "router", "gateway")}
        self.addresses = {name: [f"127.0.0.1:{port}" for port in found] for name, found in places.items()}
        self.registries, self.routers = (",".join(self.addresses[name]) for name in ("registry", "router"))
        (logs / "key").write_text(KEY)
        told = {
            "registry": ["--store", redis.url, *TIMES],
            "router": ["--registry", self.registries, "--ticket-key-file", str(logs / "key"), *REFRESH, *WAIT],
            "gateway": ["--router", self.routers, "--registry", self.registries, *WAIT],
        }
        self.services = {
            name: [Service(name, port, told[name], logs) for port in found] for name, found in places.items()
        }

    async def chat(self, gateway: int, messages: list[dict[str, Any]], conversation: str) -> dict[str, Any]:
        """Asks one gateway, or the other if that is not there, as a load balancer would; fails unless it is 200."""
        for attempt in range(2):
            url = f"http://{self.addresses['gateway'][(gateway + attempt) % 2]}/v1/chat/completions"
            body = {"model": "sim", "messages": messages, "max_tokens": WORDS}
            try:
                async with self.http.post(url, json=body, headers={"x-session-id": conversation}) as answered:
                    assert answered.status == 200, await answered.text()
                    told: dict[str, Any] = await answered.json()
                    self.answered += 1
                    return told
            except aiohttp.ClientConnectionError:
                if attempt:
                    raise
        raise AssertionError


@asynccontextmanager
async def running(redis: RedisServer, logs: Path) -> AsyncIterator[Replicas]:
    """Runs it all, until a request is served."""
    async with aiohttp.ClientSession() as http:
        replicas = Replicas(redis, logs, http)
        started = [service for pair in replicas.services.values() for service in pair]
        plane = connector(registry=replicas.registries, router=replicas.routers)
        roles = ("prefill", "decode", "decode")
        try:
            await asyncio.gather(*(asyncio.to_thread(service.start) for service in started))
            async with Fleet([engine(role, connector=plane, prefix_caching=False) for role in roles]) as fleet:
                replicas.fleet = fleet
                await until(lambda: all(instance.engine.connector.link.connected for instance in fleet.instances))
                await until_routed(replicas)
                yield replicas
        finally:
            await asyncio.gather(*(asyncio.to_thread(service.stop) for service in started))


async def until_routed(replicas: Replicas) -> None:
    """Waits until each gateway sends turns to prefill and decode."""
    for gateway, address in enumerate(replicas.addresses["gateway"]):
        while (await replicas.http.get(f"http://{address}/health")).status != HTTPStatus.OK:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        while not await Talk(replicas, f"first-{gateway}").reuses(gateway):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


class Talk:
    """A conversation that checks each of its answers."""

    def __init__(self, replicas: Replicas, name: str) -> None:
        self.replicas, self.name = replicas, name
        self.messages: list[dict[str, Any]] = [SYSTEM]
        self.total = 0

    async def say(self, gateway: int, text: str) -> int:
        """Says something more; returns how many tokens prefill did not compute."""
        self.messages.append({"role": "user", "content": text})
        told = await self.replicas.chat(gateway, self.messages, self.name)
        message = told["choices"][0]["message"]
        assert message["content"] == answer.text(tokens.of_chat(self.messages), len(message["content"]) // 4)
        self.messages.append(message)
        self.total = told["usage"]["total_tokens"]
        return int(told["usage"]["prompt_tokens_details"]["cached_tokens"])

    async def reuses(self, gateway: int) -> bool:
        """Whether a second turn reads what decode kept of the first."""
        await self.say(gateway, "One.")
        return await self.say(gateway, "Two.") > 0
