"""A registry that does not answer costs few requests their wait."""

import pytest
from structlog.testing import capture_logs

from kvlease.client.breaker import PAUSE, TRIP_AFTER, Breaker
from kvlease.router.errors import RegistryUnreachable
from kvlease.router.guard import GuardedRegistry
from kvlease.router.registry import RegistryRefused
from kvlease.v1.lease_pb2 import STOP_REASON_ANSWERED
from kvlease.v1.registry_pb2 import TURN_OUTCOME_COMPLETED
from tests.router.registries import FakeRegistry
from tests.router.test_ticket import SAMPLE
from tests.support.clock import FakeClock

WAIT = 0.05


class Guarded:
    """A guarded registry whose calls are counted."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.inner = FakeRegistry()
        self.registry = GuardedRegistry(self.inner, Breaker(self.clock), fair=WAIT / 2)

    async def asked(self, times: int, wait: float = WAIT) -> int:
        """Asks; returns how many calls came through."""
        before = len(self.inner.calls)
        for _ in range(times):
            try:
                await self.registry.branches("a", "c", wait)
            except (RegistryUnreachable, RegistryRefused):
                continue
        return len(self.inner.calls) - before


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


async def test_calls_pass_while_the_registry_answers(guarded: Guarded) -> None:
    assert await guarded.asked(10) == 10


async def test_after_failures_in_a_row_calls_fail_at_once(guarded: Guarded) -> None:
    guarded.inner.error = RegistryUnreachable("frozen")

    assert await guarded.asked(10) == TRIP_AFTER


async def test_a_failure_now_and_then_is_no_outage(guarded: Guarded) -> None:
    for _ in range(TRIP_AFTER):
        guarded.inner.error = RegistryUnreachable("slow")
        await guarded.asked(TRIP_AFTER - 1)
        guarded.inner.error = None
        assert await guarded.asked(1) == 1


async def test_a_caller_in_a_hurry_proves_no_outage(guarded: Guarded) -> None:
    guarded.inner.error = RegistryUnreachable("not in time")

    assert await guarded.asked(10, wait=WAIT / 10) == 10


async def test_one_call_per_pause_tries_a_lost_registry(guarded: Guarded) -> None:
    guarded.inner.error = RegistryUnreachable("frozen")
    await guarded.asked(TRIP_AFTER)

    for _ in range(3):
        guarded.clock.advance(PAUSE)
        assert await guarded.asked(10) == 1


async def test_a_trial_that_succeeds_heals(guarded: Guarded) -> None:
    guarded.inner.error = RegistryUnreachable("frozen")
    await guarded.asked(TRIP_AFTER)
    guarded.inner.error = None
    guarded.clock.advance(PAUSE)

    assert await guarded.asked(10) == 10


async def test_a_refusal_is_an_answer(guarded: Guarded) -> None:
    guarded.inner.error = RegistryRefused("no")

    assert await guarded.asked(10) == 10


async def test_ends_of_turns_are_guarded_and_the_list_of_engines_is_not(guarded: Guarded) -> None:
    guarded.inner.error = RegistryUnreachable("frozen")
    await guarded.asked(TRIP_AFTER)
    guarded.inner.error = None

    with pytest.raises(RegistryUnreachable):
        await guarded.registry.end_turn(SAMPLE, TURN_OUTCOME_COMPLETED, STOP_REASON_ANSWERED, WAIT)
    assert await guarded.registry.engines() == []


async def test_a_loss_and_its_end_are_logged_once(guarded: Guarded) -> None:
    with capture_logs() as lines:
        guarded.inner.error = RegistryUnreachable("frozen")
        await guarded.asked(10)
        guarded.inner.error = None
        guarded.clock.advance(PAUSE)
        await guarded.asked(10)

    assert [line["event"] for line in lines] == ["registry lost", "registry found again"]
