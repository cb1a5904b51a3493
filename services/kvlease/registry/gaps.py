"""Gaps between turns, counted by age: how likely the next turn comes at each age, and what waiting for it is worth."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from math import expm1
from typing import NamedTuple

HORIZON = 3600.0
"""Seconds. A turn that has not come by then counts as never coming."""
EDGES = (0.0, *(2.0 * 1.5**i for i in range(19)), HORIZON)
"""Ages at which bins begin; the last one ends the last bin."""
BINS = len(EDGES) - 1
WIDTHS = tuple(EDGES[i + 1] - EDGES[i] for i in range(BINS))
TRUST = 4.0
"""So many turns weigh as much as what was believed before."""
REMEMBERED = 20_000
"""Gaps after which the older ones count half."""
GUESS = tuple(0.7 / ((EDGES[i] + EDGES[i + 1]) / 2 + 5.0) for i in range(BINS))
"""Turns per second of waiting before anything was seen: the longer none has come, the fewer."""
FASTEST = 1.0
"""Turns per second of waiting that are believed at most: some gaps are none at all."""


class Traits(NamedTuple):
    """What is known of a turn at its end, in few steps; -1 where nothing is known."""

    stop_reason: int
    typical: int
    """The gap that its conversation usually leaves after this stop reason."""
    last: tuple[int, int]
    """The stop reason before, and the gap after it."""
    size: int
    busy: int
    """How long it took."""
    busy_before: int
    """How long the turn before it took."""


class Counts:
    """Turns that came with one trait, by age, and how many had been expected of what was known without it."""

    __slots__ = ("came", "expected", "seen")

    def __init__(self) -> None:
        """Nothing was seen."""
        self.came = [0.0] * BINS
        self.expected = [0.0] * BINS
        self.seen = 0

    def correct(self, rates: Sequence[float]) -> list[float]:
        """The rates that are believed with this trait, given those without it."""
        return [
            min(FASTEST, rate * (came + TRUST) / (expected + TRUST))
            for rate, came, expected in zip(rates, self.came, self.expected, strict=True)
        ]

    def observe(self, rates: Sequence[float], waited: Sequence[float], *, came: bool) -> None:
        """Learns that so long was waited in each of the first bins, and whether the turn came in the last of them."""
        if self.seen >= REMEMBERED:
            self.came = [x / 2 for x in self.came]
            self.expected = [x / 2 for x in self.expected]
            self.seen //= 2
        self.seen += 1
        for i, seconds in enumerate(waited):
            self.expected[i] += rates[i] * seconds
        self.came[len(waited) - 1] += came


class Gaps:
    """Gaps to be expected after turns with like traits, as far as was known when they were worked out."""

    __slots__ = ("returns",)

    def __init__(self, rates: Sequence[float]) -> None:
        """Works out what waiting is worth, given the turns that come per second of waiting in each bin."""
        self.returns = _best(rates)

    def worth(self, age: float) -> float:
        """Turns to be expected per second of keeping from this age on, if one keeps as long as pays best."""
        return self.returns[_bin(age)]

    def pays_until(self, worth: float) -> float:
        """The age, in seconds, from which on keeping is not worth so much; what is to be expected later is in that."""
        first = next((i for i in range(BINS) if self.returns[i] < worth), BINS)
        return EDGES[first]


class Experience:
    """All gaps that were seen. Each trait corrects what follows from the traits before it, as far as it was seen.

    Waits that were cut short teach what they can: so long as they lasted, none came.
    """

    def __init__(self) -> None:
        """Nothing was seen."""
        self._counts: defaultdict[tuple[object, ...], Counts] = defaultdict(Counts)
        self._worked_out: dict[Traits, Gaps] = {}
        self._seen = self._worked_out_at = 0

    def gaps(self, traits: Traits) -> Gaps:
        """What to expect; worked out again when an eighth more was seen."""
        known = self._worked_out.get(traits)
        if known is None:
            rates: Sequence[float] = GUESS
            for counts in self._of(traits):
                rates = counts.correct(rates)
            known = self._worked_out[traits] = Gaps(rates)
        return known

    def observe(self, traits: Traits, age: float, *, came: bool) -> None:
        """Learns that a turn came at that age, or that none had come by then."""
        last = _bin(age)
        waited = (*WIDTHS[:last], min(age, HORIZON) - EDGES[last])
        rates: Sequence[float] = GUESS
        for counts in self._of(traits):
            corrected = counts.correct(rates)
            counts.observe(rates, waited, came=came and age < HORIZON)
            rates = corrected
        self._seen += 1
        if self._seen * 8 >= self._worked_out_at * 9:
            self._worked_out.clear()
            self._seen = self._worked_out_at = min(self._seen, REMEMBERED // 2)

    def _of(self, traits: Traits) -> list[Counts]:
        return [self._counts[i, traits.stop_reason, trait] for i, trait in enumerate(traits)]


def _bin(age: float) -> int:
    return min(BINS - 1, bisect_right(EDGES, age) - 1)


def _best(rates: Sequence[float]) -> tuple[float, ...]:
    """For each bin, from its beginning on: most turns per second of waiting that any time to give up brings.

    Known as Gittins' index: where the rate only falls it is the rate itself; before a peak it already counts the peak.
    """
    best: list[float] = []
    ahead: list[tuple[float, float, float]] = []
    """Stretches of bins that are waited through or not at all, nearest last: came, seconds waited, still waits."""
    for rate, width in zip(reversed(rates), reversed(WIDTHS), strict=True):
        came = -expm1(-rate * width)
        waited, waits = came / rate, 1.0 - came
        while ahead and ahead[-1][0] * waited > came * ahead[-1][1]:
            then = ahead.pop()
            came, waited, waits = came + waits * then[0], waited + waits * then[1], waits * then[2]
        ahead.append((came, waited, waits))
        best.append(came / waited)
    return tuple(reversed(best))
