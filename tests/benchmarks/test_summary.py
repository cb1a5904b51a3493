"""What a run showed."""

import math

from benchmarks.multiturn.summary import likeness, points, table, verdicts
from tests.benchmarks.runs import held, turn, whole


def test_a_point_is_the_median_of_the_last_turns() -> None:
    point = points(whole())["kvlease", "kvlease", 20_000]

    assert (point.count, point.lowest, point.ttft, point.highest) == (3, 90.0, 91.0, 95.0)


def test_legs_are_alike_by_the_answers_to_the_same_prompt() -> None:
    anew, kept, stock = ("kvlease", "recompute"), ("kvlease", "kvlease"), ("stock", "stock")

    assert math.isclose(likeness(whole(), anew, kept)[20_000], 0.01)
    assert math.isclose(likeness(whole(), stock, kept)[20_000], 0.01)


def test_conversations_that_parted_before_are_not_compared() -> None:
    turns = [*held(turn("recompute", 900, 9.0)), *held(turn("kvlease", 900, 3.0), said=8)]

    assert likeness(turns, ("kvlease", "recompute"), ("kvlease", "kvlease")) == {}
    assert "no two answers of kvlease at 900 could be compared" in verdicts(turns, tolerance=1)[-1]


def test_the_table_has_a_row_for_each_leg() -> None:
    rows = table(whole()).splitlines()

    assert len(rows) == 2 + 4
    assert "| 20000 | kvlease | 3 | 91 (90 to 95) |" in rows[2]
    assert "| 7.70 | 1.0e-02 |" in rows[2]


def test_every_goal_is_judged() -> None:
    said = verdicts(whole(), tolerance=0.02)

    assert [line.split()[2] for line in said] == ["ok", "ok", "ok", "ok"]
    assert "recompute / kvlease at 20000 = 7.7 (goal >= 6.5)" in said[0]
    assert "kvlease / stock at 20000 = 0.82 (goal <= 0.9)" in said[1]
    assert "kvlease from stock at 20000 = 0.01 (goal <= 0.02)" in said[2]


def test_a_goal_that_is_missed_is_short() -> None:
    line, _ = verdicts([*held(turn("kvlease", 900, 9.0)), *held(turn("stock", 900, 8.0, stack="stock"))], tolerance=1)

    assert line.startswith("bench multiturn: short TTFT of kvlease / stock at 900")
