"""What a tenant may ask for."""

import pytest

from kvlease.rpc.limits import Limits, Meter, OverLimit
from tests.support.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def meter(clock: FakeClock, **limits: float) -> Meter:
    return Meter(lambda tenant: Limits(**limits) if tenant == "a" else Limits(), clock)  # type: ignore[arg-type]


def passed(meter: Meter, requests: int, tenant: str = "a") -> int:
    """Asks so often; returns how often it was let through."""
    count = 0
    for _ in range(requests):
        try:
            meter.take(tenant, 0)
        except OverLimit:
            continue
        count += 1
    return count


def test_a_tenant_may_ask_so_often_a_second_and_save_up_for_a_burst(clock: FakeClock) -> None:
    limited = meter(clock, rate=2.0, burst=5.0)

    assert passed(limited, 10) == 5
    clock.advance(1.0)
    assert passed(limited, 10) == 2
    clock.advance(3600.0)
    assert passed(limited, 10) == 5


def test_one_tenants_limit_is_no_other_tenants(clock: FakeClock) -> None:
    limited = meter(clock, rate=1.0)

    assert passed(limited, 10) == 1
    assert passed(limited, 10, "b") == 10


def test_it_is_told_when_to_try_again(clock: FakeClock) -> None:
    limited = meter(clock, rate=0.5)
    limited.take("a", 0)
    clock.advance(0.5)

    with pytest.raises(OverLimit) as caught:
        limited.take("a", 0)

    assert caught.value.retry_after == pytest.approx(1.5)
    clock.advance(1.5)
    limited.take("a", 0)


def test_so_many_requests_run_at_a_time(clock: FakeClock) -> None:
    limited = meter(clock, concurrent=1)

    with limited.running("a"), pytest.raises(OverLimit), limited.running("a"):
        pytest.fail("two ran at a time")
    with limited.running("a"):
        pass


def test_a_request_that_is_too_long_is_told_no_time(clock: FakeClock) -> None:
    limited = meter(clock, request_bytes=10)

    limited.take("a", 10)
    with pytest.raises(OverLimit) as caught:
        limited.take("a", 11)
    assert caught.value.retry_after is None


@pytest.mark.parametrize("name", ["rate", "burst", "concurrent", "request_bytes"])
def test_a_limit_that_lets_nothing_through_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be above 0"):
        Limits(**{name: 0})
