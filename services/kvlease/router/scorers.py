"""How well an engine would serve a leg: from 0 (badly) to 1 (as well as any)."""

from collections.abc import Callable, Mapping, Sequence

from kvlease.router.engine import Candidate, Engine, Layout
from kvlease.router.filters import other_than

Scorer = Callable[[Sequence[Candidate]], list[float]]
"""Scores candidates, in their order. Sees them all, because load only means something against others'."""


def by_queue(candidates: Sequence[Candidate]) -> list[float]:
    """Scores 1 for the fewest requests, a half for twice as many."""
    requests = [candidate.requests for candidate in candidates]
    least = min(requests) + 1
    return [least / (count + 1) for count in requests]


def by_free_blocks(candidates: Sequence[Candidate]) -> list[float]:
    """Scores the share of free KV blocks."""
    return [candidate.free for candidate in candidates]


def by_partners(prefills: Mapping[Layout, Sequence[Engine]]) -> Scorer:
    """Scores decode engines: 1 where another engine can prefill for it, else 0."""

    def pairable(engine: Engine) -> bool:
        partners = prefills.get(engine.layout, ())
        return len(partners) > 1 or any(map(other_than(engine), partners))

    return lambda candidates: [float(pairable(candidate.engine)) for candidate in candidates]


def by_reuse(holder: Engine) -> Scorer:
    """Scores prefill engines: 1 where it can read and prove what *holder* keeps, else 0."""

    def reads(engine: Engine) -> bool:
        return engine.bidirectional and holder.bidirectional and engine.layout == holder.layout

    return lambda candidates: [float(reads(candidate.engine)) for candidate in candidates]
