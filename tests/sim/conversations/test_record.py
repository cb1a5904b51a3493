"""What a run comes to is told from its turns."""

import pytest

from kvlease.sim.conversations.record import Outcome, Record, causes, reuse, summary
from kvlease.sim.conversations.told import told


def turn(outcome: Outcome = Outcome.OK, *, reusable: int = 0, cached: int = 0, first: float | None = None) -> Record:
    return Record("c", 0, 0.0, outcome, reusable=reusable, cached=cached, first=first)


def test_reuse_is_the_share_of_what_could_be_reused() -> None:
    assert reuse([turn(reusable=100, cached=100), turn(reusable=300, cached=0)]) == 0.25


def test_more_than_could_be_reused_counts_as_all() -> None:
    assert reuse([turn(reusable=100, cached=150)]) == 1


@pytest.mark.parametrize("records", [[], [turn()], [turn(Outcome.LEFT, reusable=100)]])
def test_where_nothing_could_be_reused_there_is_no_share(records: list[Record]) -> None:
    assert reuse(records) is None


def test_a_summary_counts_outcomes_and_tells_times() -> None:
    figures = summary([turn(first=0.1), turn(first=0.3), turn(Outcome.HUNG)])

    assert (figures["turns"], figures["ok"], figures["hung"], figures["wrong"]) == (3, 2, 1, 0)
    assert figures["ttft_p50_ms"] == pytest.approx(200)


def ended(outcome: Outcome, status: int = 200, why: str = "") -> Record:
    return Record("c", 0, 0.0, outcome, status, why=why)


def test_causes_are_counted_by_outcome_and_tell_the_status_of_an_error() -> None:
    away = ended(Outcome.FAILED, 503, "no decode engine can serve the model `sim` now")

    assert causes([away, away, ended(Outcome.FAILED, 500, "told to"), ended(Outcome.CUT, why="broke off")]) == {
        "failed": {"503 no decode engine can serve the model `sim` now": 2, "500 told to": 1},
        "cut": {"broke off": 1},
    }


def test_what_goes_as_planned_has_no_cause() -> None:
    assert causes([ended(Outcome.OK), ended(Outcome.LEFT)]) == {}


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome not in (Outcome.OK, Outcome.LEFT)])
def test_where_nothing_was_told_there_is_a_cause_all_the_same(outcome: Outcome) -> None:
    [(cause, count)] = causes([ended(outcome)])[outcome.value].items()

    assert (cause.strip() != "", count) == (True, 1)


def test_many_causes_are_summed_up() -> None:
    found = causes(ended(Outcome.CUT, why=f"address {min(number, 30)}") for number in range(40))["cut"]

    assert found == {"address 30": 10} | {f"address {number}": 1 for number in range(9)} | {"other causes": 21}
    assert next(iter(found)) == "address 30"


def test_people_are_told_how_many_failed_and_why() -> None:
    records = [turn(first=0.1), turn(first=0.3, reusable=100, cached=50), *[ended(Outcome.FAILED, 503, "nobody")] * 2]

    assert list(told(summary(records))) == [
        "4 turns: 2 ok, 2 failed",
        "2 failed: 503 nobody",
        "reused of what could be: 50.0%",
        "time to the first token: median 200.0 ms, p99 298.0 ms",
    ]


def test_people_are_told_of_no_figures_that_there_are_not() -> None:
    assert list(told(summary([]))) == ["0 turns"]
