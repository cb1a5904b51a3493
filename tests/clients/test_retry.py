import pytest

from kvlease.client import errors
from kvlease.client.errors import EXCEPTIONS, Draining, KvleaseError, NoEngine, StoreUnreachable, Unavailable
from kvlease.client.retry import LONGEST_PAUSE, Attempts
from tests.support.clock import FakeClock


def attempts(clock: FakeClock, timeout: float = 10.0, chance: float = 1.0) -> Attempts:
    return Attempts(timeout, clock=clock, chance=lambda: chance)


@pytest.mark.parametrize("kind", set(EXCEPTIONS.values()) - {Unavailable, Draining, StoreUnreachable})
def test_what_a_server_decided_stands(kind: type[KvleaseError]) -> None:
    assert attempts(FakeClock()).pause(kind()) is None


def test_no_engine_is_unavailable_but_decided() -> None:
    assert issubclass(NoEngine, Unavailable)
    assert attempts(FakeClock()).pause(NoEngine()) is None


@pytest.mark.parametrize("kind", [Unavailable, Draining, StoreUnreachable])
def test_nobody_answered_so_it_is_tried_again(kind: type[KvleaseError]) -> None:
    assert attempts(FakeClock()).pause(kind()) == 0.05


def test_pauses_double_up_to_the_longest() -> None:
    call = attempts(FakeClock(), timeout=100.0)

    pauses = [call.pause(Unavailable()) for _ in range(7)]

    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, LONGEST_PAUSE, LONGEST_PAUSE]


def test_chance_takes_away_at_most_half_of_a_pause() -> None:
    assert attempts(FakeClock(), chance=0.0).pause(Unavailable()) == 0.025


def test_the_servers_own_wish_goes_before_ours() -> None:
    assert attempts(FakeClock()).pause(Unavailable(retry_after=3.0)) == 3.0


def test_a_pause_that_would_outlast_the_time_limit_is_not_made() -> None:
    assert attempts(FakeClock(), timeout=0.05).pause(Unavailable()) is None


def test_all_attempts_share_one_time_limit() -> None:
    clock = FakeClock()
    call = attempts(clock, timeout=2.0)

    clock.advance(1.5)
    assert call.left() == 0.5

    clock.advance(1.0)
    assert call.left() == 0.0


def test_an_address_where_nobody_has_ever_answered_is_given_up_soon() -> None:
    clock, error = FakeClock(), Unavailable()
    error.never_answered = True
    call = attempts(clock, timeout=10.0)

    assert call.pause(error) == 0.05
    clock.advance(0.95)
    assert call.pause(error) is None
    assert call.pause(Unavailable()) == 0.2


def test_a_closed_client_is_not_tried_again() -> None:
    assert attempts(FakeClock()).pause(errors.ClientClosed()) is None
