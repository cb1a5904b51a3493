"""Conversations arranged in time, so that as many are always under way and no turn is ever seen twice.

Half of the conversations fill the first hours, to be learned from; the other half fills as many hours after them and is
counted. A conversation that lasts longer than its hours is cut into parts, which go on side by side as if they were
conversations of their own: each begins with the end of the turn before its first, which may lie in earlier hours.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple
from zlib import crc32

from benchmarks.replay.traces import Talk, Turn


class Happening(NamedTuple):
    """A turn begins or ends."""

    at: float
    part: int
    turn: int
    ends: bool


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive turns of one conversation. The first one's beginning is not played: nothing was kept for it."""

    name: str
    turns: tuple[Turn, ...]
    ends: bool
    """Whether the conversation ends with it."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is played. Instants are seconds."""

    parts: Sequence[Part]
    counted: frozenset[int]
    since: float
    until: float
    happenings: Sequence[Happening]
    """In order of time."""

    def counts(self, happening: Happening) -> bool:
        """Whether a turn is one of those by which policies are measured."""
        return happening.part in self.counted and happening.at >= self.since


def arrange(talks: Sequence[Talk], *, per_hour: float, seed: int) -> Traffic:
    """Lets conversations begin at random, so many an hour; which half one is of follows from its name."""
    rng = random.Random(seed)  # noqa: S311 - the same in every run
    halves = [[x for x in talks if crc32(x.name.encode()) % 2 == half] for half in (0, 1)]
    hours = [len(half) / per_hour * 3600 for half in halves]
    parts: list[Part] = []
    happenings: list[Happening] = []
    counted: set[int] = set()
    for second, begin, half, length in zip((False, True), (0.0, hours[0]), halves, hours, strict=True):
        for talk in half:
            for part, times in _cut(talk, begin, length, rng.uniform(0, length)):
                if second:
                    counted.add(len(parts))
                happenings += _of(len(parts), part, times)
                parts.append(part)
    until = sum(hours)
    happenings = sorted(x for x in happenings if 0 <= x.at < until)
    return Traffic(parts, frozenset(counted), hours[0], until, happenings)


def _cut(talk: Talk, begin: float, length: float, after: float) -> Iterator[tuple[Part, list[float]]]:
    """Gives each part and when its turns begin. They begin within the hours, but for the one before the first."""
    at, begins = after - talk.turns[0].gap, []
    for turn in talk.turns:
        begins.append(at + turn.gap)
        at += turn.gap + turn.busy
    for fold, group in groupby(range(len(begins)), lambda i: begins[i] // length):
        turns = list(group)
        first, last = max(0, turns[0] - 1), turns[-1]
        part = Part(f"{talk.name}#{fold:g}", talk.turns[first : last + 1], last + 1 == len(begins))
        yield part, [begin + x - fold * length for x in begins[first : last + 1]]


def _of(index: int, part: Part, begins: Sequence[float]) -> Iterator[Happening]:
    for number, (turn, at) in enumerate(zip(part.turns, begins, strict=True)):
        if number:
            yield Happening(at, index, number, ends=False)
        over = at + turn.busy
        if number + 1 < len(begins):
            over = min(over, begins[number + 1])  # not an instant after the next one begins, by rounding
        yield Happening(over, index, number, ends=True)
