"""What is due when. A call that comes too early does no harm: who is called looks at the clock and asks again."""

import heapq
from array import array
from collections.abc import Callable
from typing import Any, TypeAlias

Act: TypeAlias = Callable[[Any, Any], None]
"""Called with the ledger and the key."""

SLICE = 0.25
"""Seconds. There may be a million timers: those of later slices of time lie as they came, a few bytes each."""


class Timers:
    """Calls by key, in the order of their instants, equal ones as they came.

    Keys, not objects, so that no timer keeps a lease in memory that is gone.
    """

    def __init__(self) -> None:
        self._near: list[tuple[float, int, Act, object]] = []
        """A heap of those that lie within slices which have been begun; all others are later."""
        self._begun = -1
        self._later: dict[int, _Slice] = {}
        self._numbers: list[int] = []
        """A heap of the numbers of later slices."""
        self._count = 0

    def at(self, when: float, act: Act, key: object) -> None:
        """Calls `act(ledger, key)` at an instant. Never cancelled: what has changed by then is for `act` to see."""
        number = int(when / SLICE)
        if number <= self._begun:
            self._push(when, act, key)
            return
        later = self._later.get(number)
        if later is None:
            later = self._later[number] = _Slice()
            heapq.heappush(self._numbers, number)
        later.add(when, act, key)

    def run(self, ledger: object) -> None:
        """Makes the earliest call, of which there must be one."""
        if not self._near:
            self._begin()
        _, _, act, key = heapq.heappop(self._near)
        act(ledger, key)

    def next(self) -> float | None:
        """When the next call is due."""
        if self._near:
            return self._near[0][0]
        return self._later[self._numbers[0]].first if self._numbers else None

    def _begin(self) -> None:
        """Begins the next slice, when all before it is done. What is sorted is a heap."""
        self._begun = heapq.heappop(self._numbers)
        begun = self._later.pop(self._begun)
        numbers = range(self._count + 1, self._count + 1 + len(begun.keys))
        self._count += len(numbers)
        self._near = sorted(zip(begun.instants, numbers, begun.acts, begun.keys, strict=True))

    def _push(self, when: float, act: Act, key: object) -> None:
        self._count += 1
        heapq.heappush(self._near, (when, self._count, act, key))


class _Slice:
    """Timers of one slice of time, as they came."""

    __slots__ = ("acts", "first", "instants", "keys")

    def __init__(self) -> None:
        self.first = float("inf")
        self.instants = array("d")
        self.acts: list[Act] = []
        self.keys: list[object] = []

    def add(self, when: float, act: Act, key: object) -> None:
        self.first = min(self.first, when)
        self.instants.append(when)
        self.acts.append(act)
        self.keys.append(key)
