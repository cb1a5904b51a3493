"""Gaps between turns, counted by age: how likely the next turn comes at each age, and what waiting for it is worth."""

from bisect import bisect_right
from math import exp

HORIZON = 3600.0
"""Seconds. A turn that has not come by then counts as never coming."""
EDGES = (0.0, *(2.0 * 1.5**i for i in range(19)), HORIZON)
"""Ages at which bins begin; the last one ends the last bin."""
BINS = len(EDGES) - 1
WIDTHS = tuple(EDGES[i + 1] - EDGES[i] for i in range(BINS))
TRUST = 20.0
"""So many leases that lived through a bin weigh as much as what was believed before."""
REMEMBERED = 20_000
"""Gaps after which the older ones count half."""
GUESS = tuple(0.7 / ((EDGES[i] + EDGES[i + 1]) / 2 + 5.0) for i in range(BINS))
"""Turns per second of waiting before anything was seen: the longer none has come, the fewer."""


class Gaps:
    """Gaps of one kind, and of finer kinds below it: where little was seen, what holds for the kind above is believed.

    Each bin counts the turns that came at such an age and the seconds that were waited through it, so that waits which
    were cut short teach what they can.
    """

    __slots__ = ("_above", "_believed", "_came", "_drawn_at", "_finer", "_seen", "_waited", "rates", "returns")

    def __init__(self, above: "Gaps | None" = None) -> None:
        """Believes what is believed above."""
        self._above = above
        self._finer: dict[int, Gaps] = {}
        self._came = [0.0] * BINS
        self._waited = [0.0] * BINS
        self._seen = self._drawn_at = 0
        self.rates: tuple[float, ...] = GUESS
        self.returns: tuple[float, ...] = ()
        self._draw()

    def finer(self, level: int) -> "Gaps":
        """The gaps of a finer kind, up to date with what is believed here."""
        finer = self._finer.get(level)
        if finer is None:
            finer = self._finer[level] = Gaps(self)
        elif finer._believed is not self.rates:
            finer._draw()
        return finer

    def worth(self, age: float) -> float:
        """Turns to be expected per second of keeping from this age on, if one keeps as long as pays best."""
        return self.returns[min(BINS - 1, bisect_right(EDGES, age) - 1)]

    def pays_until(self, worth: float) -> float:
        """The age, in seconds, from which on keeping is not worth so much; what is to be expected later is in that."""
        first = next((i for i in range(BINS) if self.returns[i] < worth), BINS)
        return EDGES[first]

    def observe(self, age: float, *, came: bool) -> None:
        """Learns that a turn came at that age, or that none had come by then."""
        if self._above:
            self._above.observe(age, came=came)
        self._count(age, came=came)
        if self._seen * 8 >= self._drawn_at * 9:  # an eighth more than when it was last worked out
            self._draw()

    def _count(self, age: float, *, came: bool) -> None:
        if self._seen >= REMEMBERED:
            self._came = [x / 2 for x in self._came]
            self._waited = [x / 2 for x in self._waited]
            self._seen = self._drawn_at = REMEMBERED // 2
        self._seen += 1
        last = min(BINS - 1, bisect_right(EDGES, age) - 1)
        for i in range(last):
            self._waited[i] += WIDTHS[i]
        self._waited[last] += min(age, HORIZON) - EDGES[last]
        if came and age < HORIZON:
            self._came[last] += 1

    def _draw(self) -> None:
        self._believed = believed = self._above.rates if self._above else GUESS
        self.rates = tuple(
            (self._came[i] + TRUST * WIDTHS[i] * believed[i]) / (self._waited[i] + TRUST * WIDTHS[i])
            for i in range(BINS)
        )
        self.returns = _best(self.rates)
        self._drawn_at = self._seen


def _best(rates: tuple[float, ...]) -> tuple[float, ...]:
    """For each bin, from its middle on: most turns per second of waiting that any time to give up brings.

    Known as Gittins' index: where the rate only falls it is the rate itself; before a peak it already counts the peak.
    """
    best = [0.0] * BINS
    for first in range(BINS):
        waits, came, waited = 1.0, 0.0, 0.0  # share that still waits, that has come, and seconds waited
        for i in range(first, BINS):
            stays = exp(-rates[i] * (WIDTHS[i] / 2 if i == first else WIDTHS[i]))
            came += waits * (1 - stays)
            waited += waits * (1 - stays) / rates[i]
            waits *= stays
            best[first] = max(best[first], came / waited)
    return tuple(best)
