"""A peer that does not answer is called now and then only."""

import pytest

from kvlease.client.breaker import PAUSE, TRIP_AFTER, Breaker
from tests.support.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_breaker_opens_after_failures_in_a_row(clock: FakeClock) -> None:
    breaker = Breaker(clock)

    for _ in range(TRIP_AFTER - 1):
        breaker.failed()
    breaker.succeeded()
    for _ in range(TRIP_AFTER - 1):
        breaker.failed()
    assert breaker.allows()
    breaker.failed()
    assert not breaker.allows()


def test_an_open_breaker_lets_one_call_through_per_pause(clock: FakeClock) -> None:
    breaker = Breaker(clock)
    for _ in range(TRIP_AFTER):
        breaker.failed()

    clock.advance(PAUSE)
    assert (breaker.allows(), breaker.allows()) == (True, False)
    breaker.failed()
    assert not breaker.allows()

    clock.advance(PAUSE)
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.allows()
