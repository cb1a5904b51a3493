"""The figures of a run, as people read them."""

from collections.abc import Iterator, Mapping
from typing import Any

from kvlease.sim.conversations.record import Outcome


def told(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines: how turns went, why some went otherwise than they should, reuse, and times."""
    counts = [f"{figures[outcome.value]} {outcome.value}" for outcome in Outcome if figures[outcome.value]]
    yield f"{figures['turns']} turns" + (f": {', '.join(counts)}" if counts else "")
    for outcome, causes in figures["causes"].items():
        for cause, count in causes.items():
            yield f"{count} {outcome}: {cause}"
    if figures["reuse"] is not None:
        yield f"reused of what could be: {figures['reuse']:.1%}"
    if figures["ttft_p50_ms"] is not None:
        yield f"time to the first token: median {figures['ttft_p50_ms']} ms, p99 {figures['ttft_p99_ms']} ms"
