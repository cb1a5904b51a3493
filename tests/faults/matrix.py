"""The fault matrix: a plugin of pytest that runs the tests of some cases, and what came of each case."""

import enum
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import pytest

from tests.faults.cases import CASES


class Outcome(enum.StrEnum):
    """What came of a case."""

    OK = "ok"
    FAILED = "FAILED"
    SKIPPED = "skipped"


@dataclass(slots=True)
class Result:
    """A case while its tests run, and after.

    Attributes:
        tests: How many are still to come.
        seen: What they noted, in their order.
        failures: The end of each failure's report.
        skips: Why tests did not run.
    """

    number: int
    tests: int = 0
    seen: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)
    ran: bool = False

    @property
    def outcome(self) -> Outcome:
        """Failed if one test did, ok if one ran."""
        if self.failures:
            return Outcome.FAILED
        return Outcome.OK if self.ran else Outcome.SKIPPED

    def note(self, report: pytest.TestReport) -> None:
        """Takes what one phase of a test came to."""
        if report.failed:
            self.failures.append(f"{report.nodeid}: {_gist(report.longreprtext)}")
        elif report.skipped:
            self.skips.append(_gist(report.longrepr[2] if isinstance(report.longrepr, tuple) else ""))
        elif report.when == "call":
            self.ran = True
        if report.when == "teardown":
            self.tests -= 1
            self.seen += [str(value) for name, value in report.user_properties if name == "seen"]


class Matrix:
    """Selects the tests of the *wanted* cases; calls *tell* with each case whose tests are over."""

    def __init__(
        self,
        wanted: Collection[int],
        *,
        engines: bool,
        tell: Callable[[Result], None],
        begin: Callable[[str], None],
        explain: Callable[[str], None],
    ) -> None:
        """Without *engines*, no real ones are started. Calls *begin* with each test's name, *explain* with failures."""
        self.results = {number: Result(number) for number in sorted(wanted)}
        self.broken = False
        """Tests could not be collected."""
        self._engines, self._tell, self._begin, self._explain = engines, tell, begin, explain
        self._cases: dict[str, Sequence[Result]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keeps what shows a wanted case; what needs real engines comes last."""
        chosen: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            self._cases[item.nodeid] = shown = [self.results[n] for n in numbers(item) if n in self.results]
            possible = self._engines or item.get_closest_marker("engine") is None
            (chosen if shown and possible else others).append(item)
        chosen.sort(key=lambda item: item.get_closest_marker("engine") is not None)
        for item in chosen:
            for result in self._cases[item.nodeid]:
                result.tests += 1
        config.hook.pytest_deselected(items=others)
        items[:] = chosen

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tells what cannot be collected."""
        if report.failed:
            self.broken = True
            self._explain(report.longreprtext)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tells that a test begins."""
        cases = ", ".join(str(result.number) for result in self._cases[nodeid])
        self._begin(f"case {cases}: {nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes what came of a test, and tells what came of its case."""
        if report.failed:
            self._explain(report.longreprtext)
        for result in self._cases[report.nodeid]:
            result.note(report)
            if report.when == "teardown" and not result.tests:
                self._tell(result)

    def pytest_sessionfinish(self) -> None:
        """Tells of the cases of which no test ran."""
        for result in () if self.broken else self.results.values():
            if not (result.ran or result.failures or result.skips):
                result.skips.append("only real engines show it")
                self._tell(result)


def numbers(item: pytest.Item) -> list[int]:
    """Returns the cases that a test shows. Raises ValueError for one that is not in the table."""
    found = [number for mark in item.iter_markers("case") for number in mark.args]
    if unknown := [number for number in found if number not in CASES]:
        raise ValueError(f"{item.nodeid} shows {unknown}, which is no case")
    return found


def by_outcome(results: Collection[Result]) -> dict[Outcome, list[int]]:
    """Returns the cases' numbers by what came of them."""
    found: defaultdict[Outcome, list[int]] = defaultdict(list)
    for result in results:
        found[result.outcome].append(result.number)
    return found


def _gist(text: str) -> str:
    """Returns what a report says in one line: its first error, else its last line."""
    lines = text.strip().splitlines()
    errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    return next(iter(errors), lines[-1] if lines else "")
