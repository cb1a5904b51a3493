"""A soak is broken by what must not be, and by nothing else."""

import pytest

from kvlease.sim.conversations.record import Outcome, Record
from tests.faults.troubles import Trouble
from tests.faults.verdict import ENOUGH, REUSE_LATE, judge

CRASH = Trouble("crash", "decode-0", 10.0, 12.0)


def turn(outcome: Outcome = Outcome.OK, *, since: float = 1.0, begun: float = 5.0, cached: int = 100) -> Record:
    return Record("c", 1, begun, outcome, ended=begun + 1, reusable=100, reusable_since=since, cached=cached)


def broken(*records: Record, wrong: int = 0, held: int = 0) -> list[str]:
    return list(judge(records, [CRASH], wrong_in_engines=wrong, held={"decode-0": held} if held else {}).broken)


def test_right_answers_and_clients_that_left_break_nothing() -> None:
    assert broken(turn(), turn(Outcome.LEFT)) == []


@pytest.mark.parametrize(
    ("outcome", "rule"),
    [
        (Outcome.WRONG, "a wrong answer"),
        (Outcome.HUNG, "a hung request"),
        (Outcome.FAILED, "a 5xx"),
        (Outcome.REFUSED, "a refused request"),
        (Outcome.CUT, "an answer cut without a cause"),
    ],
)
def test_what_must_not_be_is_named(outcome: Outcome, rule: str) -> None:
    assert broken(turn(outcome)) == [rule]


def test_an_answer_that_a_crash_cut_has_its_cause() -> None:
    assert broken(turn(Outcome.CUT, begun=9.5)) == []


def test_what_engines_saw_counts_too() -> None:
    assert broken(turn(), wrong=1) == ["a wrong answer"]
    assert broken(turn(), held=3) == ["blocks or requests still held"]


def test_reuse_must_be_back_two_heartbeats_after_a_fault() -> None:
    late, soon = turn(since=14.5, begun=20.0, cached=0), turn(since=13.0, begun=20.0, cached=0)

    assert broken(turn(), late) == ["reuse not back two heartbeats after faults"]
    assert broken(turn(), soon) == []


def test_reuse_must_be_back_after_each_fault_and_not_only_on_the_whole() -> None:
    again = Trouble("freeze", "decode-0", 30.0, 40.0)
    good = [turn(since=14.5, begun=20.0) for _ in range(200)]
    bad = [turn(since=43.0, begun=50.0, cached=n % 2 * 100) for n in range(ENOUGH)]

    def rules(*records: Record) -> list[str]:
        return list(judge([turn(), *records], [CRASH, again], wrong_in_engines=0, held={}).broken)

    assert rules(*good, *bad) == [REUSE_LATE]
    assert rules(*good, *bad[1:]) == []
