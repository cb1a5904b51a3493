"""When a conversation moves away from its KV."""

import pytest

from kvlease.router.engine import Candidate
from kvlease.router.overload import Overload
from tests.router.engines import candidate

OVERLOAD = Overload(backlog=4, blocks=0.1)


def test_an_engine_where_nobody_waits_is_not_overloaded_however_much_it_runs() -> None:
    assert not OVERLOAD.applies(candidate("d0", unseen=50, running=100), [candidate("d1")])


@pytest.mark.parametrize(("waiting", "elsewhere", "overloaded"), [(4, 0, False), (5, 0, True), (9, 5, False)])
def test_a_queue_counts_against_the_shortest_one(waiting: int, elsewhere: int, overloaded: bool) -> None:
    others = [candidate("d1", waiting=elsewhere), candidate("d2", waiting=50)]

    assert OVERLOAD.applies(candidate("d0", waiting=waiting), others) is overloaded


def test_requests_on_their_way_to_a_queue_wait_too() -> None:
    assert OVERLOAD.applies(candidate("d0", unseen=4, waiting=1), [candidate("d1")])


@pytest.mark.parametrize(("leased", "overloaded"), [(0, True), (50, False)])
def test_a_full_pool_is_overloaded_unless_leases_can_go(leased: int, overloaded: bool) -> None:
    full = candidate("d0", free_blocks=5, leased_blocks=leased)

    assert OVERLOAD.applies(full, [candidate("d1")]) is overloaded


@pytest.mark.parametrize("others", [[], [candidate("d1", free_blocks=0, waiting=0)]])
def test_nobody_is_overloaded_when_nobody_is_better_off(others: list[Candidate]) -> None:
    assert not OVERLOAD.applies(candidate("d0", free_blocks=0, waiting=50), others)


@pytest.mark.parametrize(("backlog", "blocks"), [(0, 0.1), (1, -0.1), (1, 1.0)])
def test_settings_that_make_no_sense_are_refused(backlog: int, blocks: float) -> None:
    with pytest.raises(ValueError, match="overload"):
        Overload(backlog, blocks)
