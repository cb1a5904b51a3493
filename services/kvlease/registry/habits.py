"""Conversations' habits: how long each of them let wait for its next turns. Bounded: the longest silent go first."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import log1p, log2

from kvlease.registry.gaps import HORIZON, Traits
from kvlease.registry.lease import Conversation, StopReason

LIMIT = 50_000
"""Conversations that are remembered."""


@dataclass(slots=True)
class Wait:
    """A next turn that is waited for since an instant."""

    since: float
    traits: Traits


@dataclass(slots=True)
class Habit:
    """What is known of one conversation. Gaps are kept as logarithms; -1 stands for what is not known."""

    shown_at: float = 0.0
    """When it was last heard of."""
    wait: Wait | None = None
    typical: dict[int, float] = field(default_factory=dict)
    """The gaps after each stop reason, the newest weighing half."""
    last: tuple[int, float] = (StopReason.UNKNOWN, -1.0)
    """Newest gap, and the stop reason before it."""
    came_at: float | None = None
    """When the turn under way came."""
    busy: float = -1.0
    """Seconds that the newest turn took, and the one before it."""
    busy_before: float = -1.0

    def answered(self, now: float) -> None:
        """Learns that a turn ended."""
        self.busy_before, self.busy = self.busy, -1.0 if self.came_at is None else now - self.came_at
        self.came_at = None

    def came(self, now: float) -> Wait | None:
        """Learns that a turn came; gives what was waited for until then."""
        wait, self.wait = self.wait, None
        if wait:
            self.came_at = now
            stop_reason, gap = wait.traits.stop_reason, log1p(now - wait.since)
            self.typical[stop_reason] = (self.typical.get(stop_reason, gap) + gap) / 2
            self.last = (stop_reason, gap)
        return wait

    def traits(self, stop_reason: StopReason, tokens: int) -> Traits:
        """What is known of a turn that ended so."""
        before, last = self.last
        return Traits(
            stop_reason,
            min(9, _step(self.typical.get(stop_reason, -1.0), 1.5)),
            (before, _step(last, 0.7)),
            min(8, int(log2(tokens / 8000 + 1))),
            min(6, _step(_log(self.busy), 2.0)),
            min(6, _step(_log(self.busy_before), 2.0)),
        )


class Habits:
    """Habits by conversation, the longest silent first."""

    def __init__(self, limit: int = LIMIT) -> None:
        """Starts empty."""
        self._limit = limit
        self._known: OrderedDict[Conversation, Habit] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def shown(self, conversation: Conversation, now: float) -> Habit:
        """The habit of a conversation that shows itself, new if need be."""
        habit = self._known.setdefault(conversation, Habit())
        habit.shown_at = now
        self._known.move_to_end(conversation)
        return habit

    def known(self, conversation: Conversation) -> Habit | None:
        return self._known.get(conversation)

    def forgotten(self, now: float) -> Iterator[Wait]:
        """Forgets those that are too many or silent for too long; gives what they still waited for."""
        while self._known:
            longest_silent = next(iter(self._known.values()))
            if len(self._known) <= self._limit and now - longest_silent.shown_at < HORIZON:
                return
            self._known.popitem(last=False)
            if longest_silent.wait:
                yield longest_silent.wait


def _log(seconds: float) -> float:
    return -1.0 if seconds < 0 else log1p(seconds)


def _step(known: float, steps: float) -> int:
    return -1 if known < 0 else int(known * steps)
