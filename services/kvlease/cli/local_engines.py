"""vLLM beside the services of `kvlease up`, in processes of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kvlease.cli.beside import Tell
from kvlease.local.engine import Engine
from kvlease.local.fleet import Fleet, wait_ready

_POLL = 0.25  # seconds


class LocalEngines:
    """The processes of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    @property
    def names(self) -> frozenset[str]:
        return frozenset(engine.name for engine in self._fleet)

    @asynccontextmanager
    async def running(self, tell: Tell) -> AsyncIterator[None]:
        """Starts all side by side."""
        try:
            for engine in self._fleet:
                engine.log.unlink(missing_ok=True)
                _start(engine, tell)
            yield
        finally:
            await asyncio.to_thread(self._fleet.stop)

    async def ready(self, tell: Tell) -> None:
        """Waits until all are healthy."""
        await _wait_ready(list(self._fleet), tell)

    async def supervise(self, tell: Tell) -> None:
        """Starts engines again that end, on their ports, for as long as they get ready."""
        while True:
            await asyncio.sleep(_POLL)
            for engine in self._fleet:
                if not engine.running:
                    tell("engine ended", name=engine.name, log=str(engine.log))
                    _start(engine, tell)
                    await _wait_ready([engine], tell)


def _start(engine: Engine, tell: Tell) -> None:
    pid = engine.start()
    tell("engine started", name=engine.name, url=engine.url, pid=pid, log=str(engine.log))


async def _wait_ready(engines: list[Engine], tell: Tell) -> None:
    await asyncio.to_thread(wait_ready, engines, tell=lambda engine: tell("engine ready", name=engine.name))
