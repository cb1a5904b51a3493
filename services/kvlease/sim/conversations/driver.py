"""Runs the conversations of a plan side by side."""

import asyncio
import math
import time
from collections.abc import Callable

import aiohttp

from kvlease.connector.prefix import STRIDE
from kvlease.sim.conversations.client import Gateway
from kvlease.sim.conversations.history import History
from kvlease.sim.conversations.plan import Plan, turns_of
from kvlease.sim.conversations.record import Outcome, Record

_CONVERSATION = "sim-{seed}-{number}"


class Driver:
    """One run."""

    def __init__(self, plan: Plan, url: str, *, model: str = "sim", tell: Callable[[Record], None]) -> None:
        """Sends turns to the gateway at *url*; calls *tell* with each that is over."""
        self._plan, self._url, self._model, self._tell = plan, url, model, tell
        self._numbers = iter(range(plan.conversations))
        self._begun = time.monotonic()

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._begun

    async def run(self) -> None:
        """Returns when all conversations are over, or the time is."""
        self._begun = time.monotonic()
        plan = self._plan
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
            gateway = Gateway(http, self._url, model=self._model, patience=plan.patience, clock=self.now)
            starts = [plan.ramp * number / plan.concurrent for number in range(plan.concurrent)]
            async with asyncio.TaskGroup() as group:
                for start in starts:
                    group.create_task(self._work(gateway, start))

    async def _work(self, gateway: Gateway, start: float) -> None:
        await asyncio.sleep(start)
        for number in self._numbers:
            if self._over():
                return
            await self._converse(gateway, number)

    async def _converse(self, gateway: Gateway, number: int) -> None:
        name = _CONVERSATION.format(seed=self._plan.seed, number=number)
        history = History(name, self._plan.system)
        left = (0, 0.0)  # tokens that the last answer left in decode, and since when
        for count, turn in enumerate(turns_of(self._plan, number)):
            if self._over():
                break
            record = Record(name, count, self.now(), reusable=left[0], reusable_since=left[1])
            asked = history.asking(turn.words)
            text = await gateway.ask(record, asked, turn)
            self._tell(record)
            if record.outcome is Outcome.OK:
                history.answered(asked, text, called=turn.tools)
                kept = record.total_tokens - 1
                left = (kept if kept >= STRIDE else 0), record.ended  # less is kept by nobody
            await self._think(turn.think)
        if self._plan.end:
            await gateway.end(name)

    async def _think(self, length: float) -> None:
        """Waits before the next turn, but not beyond the end of the run."""
        await asyncio.sleep(max(0.0, min(length, self._end() - self.now())))

    def _over(self) -> bool:
        return self.now() >= self._end()

    def _end(self) -> float:
        return math.inf if self._plan.duration is None else self._plan.duration
