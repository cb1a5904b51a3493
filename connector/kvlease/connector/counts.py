"""What an engine counts for its operator, from one step to the next. Pure: no vLLM, no gRPC, no clock.

Only in the scheduling loop. A step in which nothing happened gives nothing, at the price of two comparisons.
"""

from collections import Counter, defaultdict
from typing import TypedDict

from kvlease.connector.turn import Source, Turn
from kvlease.v1.registry_pb2 import ReadOutcome

PREFIX = "kvlease_connector_"
COUNTERS = {
    "prompt_tokens": ("source", "Prompt tokens of turns that have ended, by how this engine came by their KV."),
    "misses": ("reason", "Turns of which this engine reused less than it could have."),
    "claims": ("outcome", "Claims on another engine's lease, by how they ended."),
    "leases_freed": ("reason", "Leases whose blocks were freed, or that were refused, by why."),
}
HISTOGRAMS = {
    "added_wait_seconds": (
        "What a turn waited for the control plane before it was scheduled.",
        (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.25, 1),
    ),
    "reclaim_seconds": (
        "From the receipt of the registry's order to the freeing of its blocks.",
        (0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
    ),
}
GAUGES = {
    "leases": "Leases whose blocks this engine keeps.",
    "leased_blocks": "KV blocks kept for leases; one that several share counts once.",
}
MOST_REASONS = 64  # different values of one label; what comes after them is "OTHER"


class Delta(TypedDict):
    """What is new, in plain words that every serialiser takes."""

    counts: dict[str, dict[str, int]]  # counter -> value of its label -> by how much
    seconds: dict[str, list[float]]  # histogram -> observations
    levels: dict[str, int]  # gauge -> what it stands at


class Counts:
    """Counts until it is asked."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)
        self._levels = (0, 0)
        self._known: defaultdict[str, set[str]] = defaultdict(set)

    def ended(self, turn: Turn) -> None:
        """Counts a turn's prompt, as its report says that its KV was come by."""
        report = turn.report
        read = "received" if turn.source is Source.PREFILL else "reused"
        for source, tokens in (
            (read, report.reused_tokens),
            ("local", report.local_tokens),
            ("computed", report.computed_tokens),
        ):
            if tokens:
                self._counts["prompt_tokens"][source] += tokens
        if report.miss_reason:
            self._count("misses", report.miss_reason)
        if turn.source is Source.BRANCH and report.prompt_tokens:
            self._seconds["added_wait_seconds"].append(report.added_wait.ToMicroseconds() / 1e6)

    def read(self, outcome: "ReadOutcome.ValueType") -> None:
        """Counts a claim, by how it ended."""
        self._count("claims", ReadOutcome.Name(outcome).removeprefix("READ_OUTCOME_"))

    def freed(self, why: str) -> None:
        """Counts a lease whose blocks were freed, or that was never granted."""
        self._count("leases_freed", why.removeprefix("RETIRE_REASON_").replace(" ", "_").upper())

    def reclaimed(self, lag: float) -> None:
        """Notes that the blocks of an order are free, *lag* seconds after it was received."""
        self._seconds["reclaim_seconds"].append(lag)

    def take(self, leases: int, blocks: int) -> Delta | None:
        """Returns what is new since the last time, with the leases held and the blocks that they keep."""
        if (leases, blocks) == self._levels and not self._counts and not self._seconds:
            return None
        new = Delta(
            counts={name: dict(values) for name, values in self._counts.items()},
            seconds=dict(self._seconds),
            levels={"leases": leases, "leased_blocks": blocks},
        )
        self._counts.clear()
        self._seconds.clear()
        self._levels = leases, blocks
        return new

    def _count(self, name: str, value: str) -> None:
        known = self._known[name]
        if value not in known and len(known) >= MOST_REASONS:
            value = "OTHER"
        known.add(value)
        self._counts[name][value] += 1


def merge(into: Delta, new: Delta) -> None:
    """Adds a later delta to an earlier one."""
    for name, values in new["counts"].items():
        counts = into["counts"].setdefault(name, {})
        for value, by in values.items():
            counts[value] = counts.get(value, 0) + by
    for name, seconds in new["seconds"].items():
        into["seconds"].setdefault(name, []).extend(seconds)
    into["levels"] |= new["levels"]
