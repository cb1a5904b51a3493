"""Reads of other engines' blocks: they take time, can be made slow or endless, and show what is there at their end."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvlease.sim.faults import Switches
from kvlease.sim.latency import Latency
from kvlease.sim.pool import Block
from kvlease.sim.wire import ReadFailedError, Wire

_FOREVER = 86_400.0  # seconds


@dataclass(slots=True)
class Counters:
    """Of all reads so far."""

    reads: int = 0
    seconds: float = 0.0
    tokens: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Transfer:
    """A read to be made.

    Attributes:
        params: Name the engine to read from.
        remote: Its blocks.
        local: The blocks that they are copied to.
        done: Request of which the other engine is told that it was read; empty: it is not told.
    """

    request_id: str
    params: Mapping[str, Any]
    remote: Sequence[int]
    local: Sequence[Block]
    tokens: int
    done: str = ""


class Transfers:
    """The reads of one engine, by the request that they are for."""

    def __init__(
        self, wire: Wire, latency: Latency, switches: Switches, *, wake: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        """Calls *wake* whenever a read has ended."""
        self.ended: deque[tuple[str, bool]] = deque()
        """Requests whose read has ended, and whether it failed."""
        self.counters = Counters()
        self._wire, self._latency, self._switches, self._wake, self._clock = wire, latency, switches, wake, clock
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, transfer: Transfer) -> None:
        """Begins a read."""
        self._tasks[transfer.request_id] = asyncio.get_running_loop().create_task(self._read(transfer))

    def abandon(self, request_id: str) -> None:
        """Forgets a read."""
        if (task := self._tasks.pop(request_id, None)) is not None:
            task.cancel()

    def close(self) -> None:
        """Forgets all of them."""
        for request_id in list(self._tasks):
            self.abandon(request_id)

    async def _read(self, transfer: Transfer) -> None:
        begun = self._clock()
        lost = self._switches.span("black_hole") > 0
        takes = _FOREVER if lost else self._latency.of_read(transfer.tokens) + self._switches.read_delay
        await asyncio.sleep(takes)
        failed = not await self._copy(transfer)
        self.counters.failed += failed
        self.counters.reads += not failed
        self.counters.tokens += 0 if failed else transfer.tokens
        self.counters.seconds += self._clock() - begun
        del self._tasks[transfer.request_id]
        self.ended.append((transfer.request_id, failed))
        self._wake()

    async def _copy(self, transfer: Transfer) -> bool:
        try:
            tags = await self._wire.fetch(transfer.params, transfer.remote, transfer.done)
        except ReadFailedError:
            return False
        for block, tag in zip(transfer.local, tags, strict=True):
            block.tag = tag
        return True
