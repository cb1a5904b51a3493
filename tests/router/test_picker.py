"""Taking the best, and spreading over equals."""

from collections import Counter

from kvlease.router.picker import SAMPLE, Picker
from tests.router.engines import candidate, engine, key, picker

ENGINES = [candidate(f"d{i}") for i in range(4)]


def picks(by: Picker, scores: list[float], times: int) -> list[str]:
    return [by.pick(ENGINES, scores).engine.key.engine_id for _ in range(times)]


def test_the_best_is_picked() -> None:
    assert picks(picker(), [0.1, 0.2, 0.9, 0.3], 3) == ["d2"] * 3


def test_equals_take_turns() -> None:
    assert set(Counter(picks(picker(), [1.0] * 4, 20)).values()) == {5}


def test_who_is_better_by_next_to_nothing_is_an_equal() -> None:
    assert Counter(picks(picker(), [1.0, 0.999, 0.5, 0.5], 10)) == {"d0": 5, "d1": 5}


def test_the_first_pick_differs_from_router_to_router() -> None:
    assert len({picks(picker(seed), [1.0] * 4, 1)[0] for seed in range(50)}) == 4


def test_of_very_many_engines_some_are_looked_at() -> None:
    few, many = [engine(f"d{i}") for i in range(SAMPLE)], [engine(f"d{i}") for i in range(1000)]
    used = picker()

    assert used.sample(few) == few
    assert len({e.key for e in used.sample(many)}) == SAMPLE


def test_engines_that_are_gone_are_forgotten() -> None:
    used = picker()
    picks(used, [1.0] * 4, 4)

    used.keep_only({key("d0")})

    assert set(used._picked) == {key("d0")}
