"""Requests that heartbeats do not show yet."""

import pytest

from kvlease.router.dispatched import ARRIVAL, Dispatched
from kvlease.router.fleet import Fleet
from kvlease.router.ticket import Terms
from tests.router.engines import engine, key, prefill
from tests.support.clock import FakeClock

P, D = key("p0"), key("d0")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def dispatched(clock: FakeClock) -> Dispatched:
    return Dispatched(clock)


def terms(ticket_id: str = "t") -> Terms:
    return Terms(
        ticket_id=ticket_id, tenant="a", conversation_id="", prefill=P, decode=D, base_generation=0, lifetime=60.0
    )


def heard(dispatched: Dispatched, clock: FakeClock, silent: float = 0.0) -> None:
    dispatched.heard(Fleet.of([engine("d0", silent=silent), prefill("p0", silent=silent)], clock()))


def test_a_turn_counts_at_both_engines_from_its_routing(dispatched: Dispatched) -> None:
    dispatched.routed(terms())

    assert (dispatched.count(P), dispatched.count(D), dispatched.count(key("d1"))) == (1, 1, 0)


def test_a_heartbeat_shows_what_arrived_before_it(dispatched: Dispatched, clock: FakeClock) -> None:
    dispatched.routed(terms("before"))
    dispatched.routed(terms("after"))
    dispatched.arrived(D, "before")
    clock.advance(1.0)
    dispatched.arrived(D, "after")

    heard(dispatched, clock, silent=0.5)

    assert dispatched.count(D) == 1


def test_a_heartbeat_does_not_show_what_is_still_on_its_way(dispatched: Dispatched, clock: FakeClock) -> None:
    dispatched.routed(terms())
    clock.advance(ARRIVAL)

    heard(dispatched, clock)

    assert dispatched.count(D) == 1


def test_what_nobody_saw_arriving_is_taken_to_have_arrived_in_the_end(dispatched: Dispatched, clock: FakeClock) -> None:
    dispatched.routed(terms())
    clock.advance(ARRIVAL + 1.0)

    heard(dispatched, clock)

    assert dispatched.count(D) == 0


def test_a_turn_that_ends_counts_nowhere(dispatched: Dispatched) -> None:
    dispatched.routed(terms())

    dispatched.ended(terms())

    assert (dispatched.count(P), dispatched.count(D)) == (0, 0)


def test_prefill_ends_before_decode_does(dispatched: Dispatched) -> None:
    dispatched.routed(terms())

    dispatched.prefill_ended(terms())

    assert (dispatched.count(P), dispatched.count(D)) == (0, 1)


def test_engines_that_are_gone_are_forgotten(dispatched: Dispatched, clock: FakeClock) -> None:
    dispatched.routed(terms())

    dispatched.heard(Fleet.of([engine("d0")], clock()))

    assert set(dispatched._legs) == {D}


def test_what_was_not_routed_here_changes_nothing(dispatched: Dispatched) -> None:
    dispatched.arrived(D, "elsewhere")
    dispatched.ended(terms())

    assert dispatched.count(D) == 0
