"""Registry, router, gateway and simulated engines as processes of this machine, each of which can be harmed."""

import asyncio
import os
import secrets
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from kvlease.client.lengths import written
from kvlease.local import page, ports
from kvlease.local.process import Process

GRACE = 5.0  # seconds
READY_WITHIN = 60.0  # seconds
HEARTBEAT = 1.0  # seconds; the registry's default


@dataclass(frozen=True, slots=True)
class Size:
    """How many engines, and what they are told.

    Attributes:
        ttl: Seconds that leases live: those of conversations whose end was not heard, as in an outage, are to be over
            soon enough to see that they are.
        wait: Seconds that a request may wait for each of the control plane's answers. The default of 50 ms is for
            machines that do not run everything at once on few cores.
    """

    prefill: int = 2
    decode: int = 4
    engine: Sequence[str] = ()
    ttl: float = 30.0
    wait: float = 1.0


@dataclass(frozen=True, slots=True)
class Sim:
    """A simulated engine."""

    name: str
    role: str
    url: str


class World:
    """All processes, by name: registry, router, gateway, prefill, decode."""

    def __init__(self, size: Size, logs: Path) -> None:
        """Chooses ports; starts nothing."""
        registry, router, gateway = (f"127.0.0.1:{port}" for port in ports.free(3))
        self._addresses = {"registry": registry, "router": router}
        first = {"prefill": _consecutive(size.prefill), "decode": _consecutive(size.decode)}
        self.gateway_url = f"http://{gateway}"
        self.sims = [
            Sim(f"{role}-{n}", role, f"http://127.0.0.1:{first[role] + n}")
            for role, count in (("prefill", size.prefill), ("decode", size.decode))
            for n in range(count)
        ]
        ttl = written(size.ttl)
        commands = {
            "registry": _service("registry", registry, "--answered-ttl", ttl, "--tools-ttl", ttl),
            "router": _service("router", router, "--registry", registry, "--wait", written(size.wait)),
            "gateway": _service(
                *("gateway", gateway, "--router", router, "--registry", registry),
                *("--wait", written(2 * size.wait)),
            ),
        }
        for role, count in (("prefill", size.prefill), ("decode", size.decode)):
            place = ("--role", role, "--count", str(count), "--port", str(first[role]), "--engine-id", role)
            caching = ("--no-prefix-caching",) if role == "prefill" else ()  # so that only decode can have the history
            plane = ("--registry", registry, "--router", router)
            commands[role] = _engines(*place, *plane, *caching, *size.engine)
        environment = os.environ | {
            "KVLEASE_TICKET_KEY": secrets.token_hex(16),
            "KVLEASE_WAIT": written(size.wait),
            "PYTHONUNBUFFERED": "1",
        }
        self.processes = {
            name: Process(name, command, log=logs / f"{name}.log", grace=GRACE, environment=environment)
            for name, command in commands.items()
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs all; on entering, waits until the gateway serves and knows every engine."""
        with ExitStack() as stack:
            for process in self.processes.values():
                process.log.unlink(missing_ok=True)
                process.start()
                stack.callback(process.stop)
            self._wait_ready()
            yield

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN
        urls = [self.gateway_url, *(sim.url for sim in self.sims)]
        while not all(page.answers(f"{url}/health") for url in urls):
            for process in self.processes.values():
                if not process.running or time.monotonic() > deadline:
                    raise AssertionError(f"{process.name} is not ready; {process.tail()}")
            time.sleep(0.2)

    async def listens(self, name: str) -> None:
        """Waits until a service takes connections."""
        async with asyncio.timeout(READY_WITHIN):
            while not await asyncio.to_thread(_accepts, self._addresses[name]):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)

    def wrong_answers(self) -> int:
        """How often an engine found KV that was not its prompt's, in all of its lives."""
        logs = [self.processes[role].log.read_text(errors="replace") for role in ("prefill", "decode")]
        return sum(log.count('"wrong answer"') for log in logs)

    def held(self) -> dict[str, int]:
        """What each engine still has: requests and used blocks."""
        return {sim.name: held for sim in self.sims if (held := _held(page.counters(sim.url)))}

    async def settle(self, within: float) -> dict[str, int]:
        """Waits until no engine holds anything; returns what is still held after *within* seconds."""
        deadline = time.monotonic() + within
        while (held := await asyncio.to_thread(self.held)) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        return held


async def tell(http: aiohttp.ClientSession, sim: Sim, page_: str, **body: Any) -> None:
    """Switches something of an engine. Raises `aiohttp.ClientError` when it does not answer."""
    async with http.post(f"{sim.url}/admin/{page_}", json=body) as answer:
        answer.raise_for_status()


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def _held(counters: dict[str, float]) -> int:
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "kvlease_sim_used_blocks")
    return round(sum(counters[name] for name in names))


def _service(name: str, listen: str, *more: str) -> list[str]:
    return [sys.executable, "-m", f"kvlease.{name}", "--listen", listen, *more]


def _engines(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kvlease.cli", "sim-engine", *arguments]


def _consecutive(count: int) -> int:
    """Returns the first of *count* free ports in a row."""
    while True:
        [first] = ports.free(1)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
