"""What came of a case is what came of its tests, in every phase of them."""

from typing import Any, Literal

import pytest

from tests.faults.matrix import Outcome, Result, by_outcome

Phase = Literal["setup", "call", "teardown"]


def report(phase: Phase, outcome: Literal["passed", "failed", "skipped"], *, seen: str = "") -> pytest.TestReport:
    longrepr: Any = {"passed": None, "failed": "E   AssertionError: it broke\n", "skipped": ("file", 1, "Skipped: no")}
    return pytest.TestReport(
        "test",
        ("file", 1, "test"),
        {},
        outcome,
        longrepr[outcome],
        phase,
        user_properties=[("seen", seen)] if seen else [],
    )


def ran(*phases: pytest.TestReport) -> Result:
    result = Result(1, tests=1)
    for phase in phases:
        result.note(phase)
    return result


def test_a_case_is_ok_when_its_test_passed() -> None:
    result = ran(report("setup", "passed"), report("call", "passed"), report("teardown", "passed", seen="all of it"))

    assert (result.outcome, result.tests, result.seen) == (Outcome.OK, 0, ["all of it"])


@pytest.mark.parametrize("phase", ["setup", "call", "teardown"])
def test_a_case_fails_with_any_phase_of_its_test(phase: Phase) -> None:
    result = ran(*(report(each, "failed" if each == phase else "passed") for each in ("setup", "call", "teardown")))

    assert result.outcome is Outcome.FAILED
    assert result.failures == ["test: AssertionError: it broke"]


def test_a_case_of_which_nothing_ran_is_skipped_and_says_why() -> None:
    result = ran(report("setup", "skipped"), report("teardown", "passed"))

    assert (result.outcome, result.skips) == (Outcome.SKIPPED, ["Skipped: no"])


def test_cases_are_counted_by_outcome() -> None:
    assert by_outcome([ran(report("call", "passed")), Result(2)]) == {Outcome.OK: [1], Outcome.SKIPPED: [2]}
