"""Conversations' habits: how long each of them let wait for its next turns. Bounded: the longest silent go first."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import log1p, log2
from typing import NamedTuple

from kvlease.registry.gaps import HORIZON, Gaps
from kvlease.registry.lease import Conversation, StopReason

LIMIT = 50_000
"""Conversations that are remembered."""
NEW = (-1,)
"""The level of conversations of which no gap is known yet."""


class Seen(NamedTuple):
    """Logarithms of the gaps that a conversation left after one stop reason, newest weighing half; and their number."""

    typical: float
    last: float
    times: int

    @property
    def levels(self) -> tuple[int, int, int]:
        """The same in few steps."""
        return min(9, int(self.typical * 1.5)), int(self.last * 0.7), min(5, int(log2(self.times + 1)))


@dataclass(slots=True)
class Wait:
    """A next turn that is waited for since an instant."""

    since: float
    stop_reason: StopReason
    gaps: Gaps


@dataclass(slots=True)
class Habit:
    """What is known of one conversation."""

    shown_at: float = 0.0
    """When it was last heard of."""
    wait: Wait | None = None
    seen: dict[StopReason, Seen] = field(default_factory=dict)

    def kind(self, stop_reason: StopReason) -> tuple[int, ...]:
        """Which kind of gaps to expect after that, from coarse to fine."""
        seen = self.seen.get(stop_reason)
        return (stop_reason, *(seen.levels if seen else NEW))

    def came(self, stop_reason: StopReason, gap: float) -> None:
        """Learns a gap."""
        now, before = log1p(gap), self.seen.get(stop_reason)
        typical = (before.typical + now) / 2 if before else now
        self.seen[stop_reason] = Seen(typical, now, before.times + 1 if before else 1)


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
