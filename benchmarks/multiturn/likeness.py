"""How like two answers to one prompt are, by the log-probabilities of their tokens."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol


class Said(Protocol):
    """An answer, token by token."""

    @property
    def tokens(self) -> Sequence[int]:
        """The ids."""
        ...

    @property
    def logprobs(self) -> Sequence[float]:
        """Of each."""
        ...

    @property
    def alternatives(self) -> Sequence[Mapping[str, float]]:
        """At each place, the likeliest tokens' log-probabilities, by "token_id:ID"."""
        ...


def difference(one: Said, other: Said) -> float:
    """The largest difference between log-probabilities of one token at one place.

    Only places that follow the same tokens are compared. Where two answers part, the token of each is compared with
    what the other thought of it; infinite if that was not among its likeliest.
    """
    worst = 0.0
    for place, (mine, theirs) in enumerate(zip(one.tokens, other.tokens, strict=True)):
        if mine == theirs:
            worst = max(worst, abs(one.logprobs[place] - other.logprobs[place]))
        else:
            return max(worst, _apart(one.alternatives[place], other.alternatives[place], (mine, theirs)))
    return worst


def _apart(one: Mapping[str, float], other: Mapping[str, float], tokens: Sequence[int]) -> float:
    names = [f"token_id:{token}" for token in tokens]
    if any(name not in told for name in names for told in (one, other)):
        return math.inf
    return max(abs(one[name] - other[name]) for name in names)
