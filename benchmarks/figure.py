"""Figures with goals: what a benchmark was to reach, and what it reached."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number and its goal: at least so much, or at most so much."""

    text: str
    """What is counted, such as "CPU per request, of vllm-router's"."""
    value: float
    """NaN where it could not be measured: that is short of every goal."""
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    note: str = ""
    """Why it could not be measured, or under which condition it was."""

    @property
    def ok(self) -> bool:
        """Whether the goal was reached."""
        if math.isnan(self.value):
            return False
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    @property
    def goal(self) -> str:
        """The goal in words."""
        bounds = (("at least", self.at_least), ("at most", self.at_most))
        return ", ".join(f"{word} {number(bound)}{self._unit}" for word, bound in bounds if bound is not None)

    def line(self, bench: str) -> str:
        """What is said of it at the end of a run."""
        seen = "not measured" if math.isnan(self.value) else f"{number(self.value)}{self._unit}"
        note = f"; {self.note}" if self.note else ""
        return f"bench {bench}: {'ok' if self.ok else 'short'} {self.text}: {seen} (goal {self.goal}{note})"

    @property
    def _unit(self) -> str:
        return f" {self.unit}" if self.unit else ""


def number(value: object) -> str:
    """Writes a number as people read it: three digits, thousands in groups."""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if math.isnan(value):
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
