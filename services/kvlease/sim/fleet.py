"""Several simulated engines in one process: they share a wire, and a thread for their links."""

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from kvlease.connector.loop_thread import LoopThread
from kvlease.sim.instance import Instance
from kvlease.sim.settings import Settings
from kvlease.sim.wire import Wire


class Fleet:
    """Engines that run for as long as the `async with` lasts."""

    def __init__(self, engines: Iterable[Settings], *, host: str = "127.0.0.1", name: str = "") -> None:
        """Other processes read the blocks at *host*, which they know by *name* if one is given."""
        self._wire = Wire(host, name)
        self._thread = LoopThread("kvlease-link")
        self.instances = tuple(Instance(settings, self._wire, self._thread) for settings in engines)

    async def __aenter__(self) -> Self:
        """Starts all. Raises OSError when a port is taken; then none runs."""
        await self._wire.__aenter__()
        try:
            for instance in self.instances:
                await instance.start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        await asyncio.gather(*(instance.stop() for instance in self.instances))
        await self._wire.__aexit__(None, None, None)
        await asyncio.to_thread(self._thread.stop)
