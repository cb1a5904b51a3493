"""Which benchmarks there are. Each is a module with `SUMMARY` and `run`."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from benchmarks.report import RESULTS, Report

NAMES: dict[str, str] = {
    "codec": "benchmarks.codec",
    "calls": "benchmarks.calls",
    "gateway": "benchmarks.gateway",
    "table": "benchmarks.table",
    "step": "benchmarks.step",
    "fleet": "benchmarks.fleet",
    "turn": "benchmarks.turn",
    "replay": "benchmarks.replay",
}
"""Module by name, in the order in which `make bench` runs them. Imported only when wanted."""


@dataclass(frozen=True, slots=True)
class Options:
    """What every benchmark is told."""

    results: Path = RESULTS
    """Where files go."""
    smoke: bool = False
    """Only to see that it works: as small as can be, figures without meaning."""


class Benchmark(Protocol):
    """What a benchmark's module offers."""

    SUMMARY: str

    def run(self, options: Options, /) -> Report:
        """Measures; draws its own plot. Raises Unavailable where something is missing that it needs."""


class Unavailable(Exception):
    """Something is not installed that a benchmark compares with. Says what to do."""


def find(name: str) -> Benchmark:
    """Gives a benchmark. Raises KeyError for a name that is none."""
    return cast("Benchmark", import_module(NAMES[name]))
