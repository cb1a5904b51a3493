"""What happened lately, from looks at the counters at even distances."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import msgspec

EVERY = 5.0
"""Seconds between two looks."""
KEEP = 120
"""Points: ten minutes."""

Buckets: TypeAlias = Sequence[tuple[float, float]]
"""Upper bounds, in seconds, and how many were at most so much; ascending, the last bound infinite."""


class Totals(msgspec.Struct, frozen=True):
    """What was counted since the start."""

    tokens: Mapping[str, float]
    """Prompt tokens: reused, local, computed."""
    first_byte: Buckets


class Point(msgspec.Struct, frozen=True):
    """What happened between two looks. Times in seconds; None where no stream began."""

    reused: float
    local: float
    computed: float
    ttft_median: float | None
    ttft_tail: float | None


class History:
    """The last points."""

    def __init__(self, begin: Totals) -> None:
        """Begins with what was counted before."""
        self.points: deque[Point] = deque(maxlen=KEEP)
        self._last = begin

    def look(self, now: Totals) -> None:
        """Adds what happened since the last look."""
        then, self._last = self._last, now
        tokens = {source: counted - then.tokens[source] for source, counted in now.tokens.items()}
        between = [
            (bound, counted - before)
            for (bound, counted), (_, before) in zip(now.first_byte, then.first_byte, strict=True)
        ]
        self.points.append(Point(**tokens, ttft_median=quantile(between, 0.5), ttft_tail=quantile(between, 0.95)))


def quantile(buckets: Buckets, part: float) -> float | None:
    """Returns about how much *part* of what was observed is at most; None if nothing was.

    Inside a bucket observations count as evenly spread, as in Prometheus' histogram_quantile; what is above the last
    finite bound counts as that bound.
    """
    wanted = part * buckets[-1][1]
    if not wanted:
        return None
    for (lower, below), (upper, within) in pairwise([(0.0, 0.0), *buckets[:-1]]):
        if within >= wanted:
            return lower + (upper - lower) * (wanted - below) / (within - below)
    return buckets[-2][0]
