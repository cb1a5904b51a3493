"""What a run comes to is told from its turns."""

import pytest

from kvlease.sim.conversations.record import Outcome, Record, reuse, summary


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
