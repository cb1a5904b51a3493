"""True time, which no process sees; the clocks that they see; and processes that can be paused and killed."""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from math import inf

from tests.protocol.loop import Loop


@dataclass(frozen=True, slots=True)
class Rate:
    """How a process's monotonic clock differs from true time."""

    epoch: float = 0.0
    speed: float = 1.0


@dataclass(eq=False)
class Timeline:
    """Moves from instant to instant: whatever is due first happens first, at equal times in order of arrival."""

    now: float = 0.0
    processes: list["Process"] = field(default_factory=list)
    after: Callable[[], None] = lambda: None
    """Called after every instant at which something ran."""
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: "count[int]" = field(default_factory=count)

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Lets something happen at an instant."""
        heapq.heappush(self._due, (when, next(self._order), act))

    def run(self, until: float) -> None:
        """Lets everything happen up to an instant. Raises what a process failed with."""
        while (due := self._next()) <= until:
            self.now = max(self.now, due)
            while self._due and self._due[0][0] <= self.now:
                heapq.heappop(self._due)[2]()
            for process in tuple(self.processes):
                process.run()
            self.after()
        self.now = until

    def _next(self) -> float:
        dues = [process.due() for process in self.processes]
        return min([*dues, self._due[0][0]] if self._due else dues, default=inf)


class Process:
    """One process. Paused, it does nothing, while its mail and its timers wait and its clock goes on."""

    def __init__(self, timeline: Timeline, name: str, rate: Rate) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.resumed_at = timeline.now
        """True time since which it has run."""
        self.loop = Loop(self.clock)  # type: ignore[abstract]
        self._timeline, self._rate = timeline, rate
        self._mail: deque[Callable[[], None]] = deque()
        timeline.processes.append(self)

    def clock(self) -> float:
        """Its monotonic clock."""
        return self._rate.epoch + self._rate.speed * self._timeline.now

    def true(self, instant: float) -> float:
        """True time at an instant of its clock."""
        return (instant - self._rate.epoch) / self._rate.speed

    def due(self) -> float:
        """True time at which it has something to do."""
        if self.paused:
            return inf
        if self.loop.ready:
            return self._timeline.now
        timer = self.loop.due()
        return inf if timer is None else self.true(timer)

    def run(self) -> None:
        """Does what is due."""
        if self.paused or not self.alive:
            return
        self.loop.run_now()
        if self.loop.errors:
            raise self.loop.errors[0]

    def deliver(self, mail: Callable[[], None]) -> None:
        """Hands it something that has come for it."""
        if self.paused:
            self._mail.append(mail)
        elif self.alive:
            self.loop.call_soon(mail)

    def pause(self) -> None:
        """Stops it, as SIGSTOP does."""
        self.paused = self.alive

    def resume(self, *, mail_first: bool) -> None:
        """Lets it go on: with what has come meanwhile, or with the timers that have run down."""
        if not self.paused:
            return
        self.paused, self.resumed_at = False, self._timeline.now
        if not mail_first:
            self.run()
        while self._mail:
            self.loop.call_soon(self._mail.popleft())

    def kill(self) -> None:
        """Ends it, as SIGKILL does."""
        self.alive = self.paused = False
        self._mail.clear()
        self._timeline.processes.remove(self)
        self.loop.kill()
