"""What is due when. A call that comes too early does no harm: who is called looks at the clock and asks again."""

import heapq
from collections.abc import Callable
from typing import Any, TypeAlias

Act: TypeAlias = Callable[[Any, Any], None]
"""Called with the ledger and the key."""


class Timers:
    """Calls by key. Keys, not objects, so that no timer keeps a lease in memory that is gone."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Act, object]] = []
        self._count = 0

    def at(self, when: float, act: Act, key: object) -> None:
        """Calls `act(ledger, key)` at an instant. Never cancelled: what has changed by then is for `act` to see."""
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, act, key))

    def run(self, ledger: object) -> None:
        """Makes the earliest call, of which there must be one."""
        _, _, act, key = heapq.heappop(self._heap)
        act(ledger, key)

    def next(self) -> float | None:
        """When the next call is due."""
        return self._heap[0][0] if self._heap else None
