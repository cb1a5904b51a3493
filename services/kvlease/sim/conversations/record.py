"""What is noted of each turn, and what all turns together come to."""

import enum
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


class Outcome(enum.StrEnum):
    """How a turn went, as its client sees it."""

    OK = "ok"
    WRONG = "wrong"
    """It was answered, but not what the prompt asks for."""
    HUNG = "hung"
    REFUSED = "refused"
    """An error status below 500."""
    FAILED = "failed"
    """A status of 500 or more."""
    CUT = "cut"
    """The connection broke before the answer was whole: what has been sent cannot be taken back."""
    LEFT = "left"
    """The client left, as planned."""


@dataclass(slots=True)
class Record:
    """One turn. Instants are seconds since the run began.

    Attributes:
        reusable: Tokens that the turn before left in decode.
        reusable_since: When that turn ended.
        cached: Tokens of the prompt that prefill did not compute.
        first: Seconds until the first word.
        why: What is told of a turn that went otherwise than it should; empty if nothing is.
    """

    conversation: str
    turn: int
    begun: float
    outcome: Outcome = Outcome.CUT
    status: int = 0
    ended: float = 0.0
    reusable: int = 0
    reusable_since: float = 0.0
    prompt_tokens: int = 0
    total_tokens: int = 0
    cached: int = 0
    first: float | None = None
    why: str = ""

    @property
    def cause(self) -> str:
        """Why it went otherwise than it should: the status, if it was one of an error, and what was told."""
        why = self.why or _UNTOLD.get(self.outcome, "nothing was told")
        return f"{self.status} {why}" if self.outcome in (Outcome.REFUSED, Outcome.FAILED) else why


_UNTOLD = {
    Outcome.WRONG: "another answer than the prompt asks for",
    Outcome.HUNG: "not answered in time",
    Outcome.CUT: "the answer stopped before its end",
}
_AS_PLANNED = (Outcome.OK, Outcome.LEFT)
_CAUSES = 10
_OTHERS = "other causes"


def causes(records: Iterable[Record]) -> dict[str, dict[str, int]]:
    """Counts, by outcome, why turns went otherwise than they should: the most frequent causes first, then the rest."""
    counted: dict[Outcome, Counter[str]] = {}
    for record in records:
        if record.outcome not in _AS_PLANNED:
            counted.setdefault(record.outcome, Counter())[record.cause] += 1
    return {outcome.value: _foremost(counted[outcome]) for outcome in Outcome if outcome in counted}


def _foremost(counts: Counter[str]) -> dict[str, int]:
    foremost = dict(counts.most_common(_CAUSES))
    rest = counts.total() - sum(foremost.values())
    return foremost | ({_OTHERS: rest} if rest else {})


def reuse(records: Iterable[Record]) -> float | None:
    """Returns the share of what could have been reused that was; None where nothing could."""
    mine = [record for record in records if record.outcome is Outcome.OK and record.reusable]
    could = sum(record.reusable for record in mine)
    return sum(min(record.cached, record.reusable) for record in mine) / could if could else None


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Returns the figures of a run."""
    outcomes = Counter(record.outcome.value for record in records)
    firsts = sorted(record.first for record in records if record.first is not None)
    share = reuse(records)
    return {
        "turns": len(records),
        **{outcome.value: outcomes[outcome.value] for outcome in Outcome},
        "causes": causes(records),
        "reuse": None if share is None else round(share, 4),
        "ttft_p50_ms": _ms(firsts, 50),
        "ttft_p99_ms": _ms(firsts, 99),
    }


def _ms(values: Sequence[float], percent: int) -> float | None:
    if len(values) < 2:  # noqa: PLR2004 - what quantiles need
        return None
    return round(1000 * statistics.quantiles(values, n=100, method="inclusive")[percent - 1], 1)
