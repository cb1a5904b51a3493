"""What a soak came to: figures, and what of them must not be. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvlease.sim.conversations.record import Outcome, Record, reuse, summary
from tests.faults.troubles import Trouble
from tests.faults.world import HEARTBEAT

CUTTING = {"crash", "errors"}
"""Faults that break an answer which has begun: nobody can take its words back."""
LEVEL = 0.9  # of the reuse before the first fault, after all faults together
LEAST = 0.75  # of it after each fault that was followed by so many turns as to say something
ENOUGH = 20  # turns
REUSE_LATE = "reuse not back two heartbeats after faults"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The figures, and the rules that were broken."""

    figures: Mapping[str, Any]
    broken: Sequence[str] = field(default_factory=list)


def judge(
    records: Sequence[Record], troubles: Sequence[Trouble], *, wrong_in_engines: int, held: Mapping[str, int]
) -> Verdict:
    """Judges a run: the turns, what was done meanwhile, and what the engines saw and still hold."""
    unexplained = [r for r in records if r.outcome is Outcome.CUT and not _explained(r, troubles)]
    first, *later = _calm(records, troubles)
    before, after = reuse(first), reuse(record for turns in later for record in turns)
    each = [share for turns in later if len(turns) >= ENOUGH and (share := reuse(turns)) is not None]
    figures = summary(records) | {
        "faults": len(troubles),
        "wrong_in_engines": wrong_in_engines,
        "cut_unexplained": len(unexplained),
        "reuse_before_faults": _rounded(before),
        "reuse_two_heartbeats_after_faults": _rounded(after),
        "reuse_least_after_a_fault": _rounded(min(each, default=None)),
        "faults_followed_by_enough_turns": len(each),
        "leaked": dict(held),
    }
    level = before or 0.0
    back = (after is None or after >= LEVEL * level) and all(share >= LEAST * level for share in each)
    rules = {
        "a wrong answer": figures["wrong"] + wrong_in_engines,
        "a hung request": figures["hung"],
        "a 5xx": figures["failed"],
        "a refused request": figures["refused"],
        "an answer cut without a cause": len(unexplained),
        "blocks or requests still held": sum(held.values()),
        REUSE_LATE: not back,
    }
    return Verdict(figures, [rule for rule, count in rules.items() if count])


def _explained(record: Record, troubles: Sequence[Trouble]) -> bool:
    """Whether a fault that cuts connections overlaps the turn."""
    return any(t.kind in CUTTING and t.begun <= record.ended and record.begun <= t.ended for t in troubles)


def _calm(records: Sequence[Record], troubles: Sequence[Trouble]) -> list[list[Record]]:
    """Returns the turns on KV made and asked for before the first fault, and from two heartbeats after each on."""
    ends = [0.0, *(trouble.ended + 2 * HEARTBEAT for trouble in troubles)]
    begins = [*(trouble.begun for trouble in troubles), float("inf")]
    return [
        [r for r in records if r.reusable and start <= r.reusable_since and r.ended <= end]
        for start, end in zip(ends, begins, strict=True)
    ]


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
