"""Rounds of a measurement: contenders take turns; what is told of each is the median, and how far rounds lie apart."""

import statistics
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class Sample:
    """One number, measured several times."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values) if self.values else float("nan")

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest."""
        return (min(self.values), max(self.values)) if self.values else (float("nan"), float("nan"))


@dataclass(slots=True)
class Samples(Generic[T]):
    """Numbers by what they are of."""

    of: dict[T, Sample] = field(default_factory=dict)

    def add(self, key: T, value: float) -> None:
        self.of.setdefault(key, Sample()).values.append(value)

    def median(self, key: T) -> float:
        """The median; NaN for what was not measured."""
        return self.of[key].median if key in self.of else float("nan")

    def ratio(self, key: T, to: T) -> float:
        """The median of what one was of the other in the same round: what changes between rounds cancels out."""
        pairs = zip(self.of[key].values, self.of[to].values, strict=False) if key in self.of and to in self.of else ()
        ratios = [mine / theirs for mine, theirs in pairs if theirs]
        return statistics.median(ratios) if ratios else float("nan")

    def facts(self) -> dict[str, list[float]]:
        """All values, for the results' file."""
        return {str(key): sample.values for key, sample in self.of.items()}


def turns(contenders: Sequence[T], rounds: int) -> Iterator[T]:
    """Gives every contender once a round, each round in the other order: none is always the one on a warm machine."""
    for index in range(rounds):
        yield from contenders if index % 2 == 0 else reversed(contenders)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share lies; NaN of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
