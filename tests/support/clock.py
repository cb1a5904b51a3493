"""A clock that moves only when told to."""

import asyncio
import heapq
from itertools import count


class FakeClock:
    """Seconds since some epoch, as `time.monotonic` gives them; `advance` also wakes those who sleep by it."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
        while self._sleepers and self._sleepers[0][0] <= self.now:
            awake = heapq.heappop(self._sleepers)[2]
            if not awake.done():
                awake.set_result(None)

    async def sleep(self, seconds: float) -> None:
        """Stands in for `asyncio.sleep`."""
        awake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._order), awake))
        await awake


async def settle(turns: int = 20) -> None:
    """Lets tasks that can go on do so."""
    for _ in range(turns):
        await asyncio.sleep(0)
