"""The renewal plan on fake time, against a registry of ten lines and a network that loses and delays."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.client.renewal import SHORTEST_PAUSE, Hold, RenewalPlan, call_timeout
from kvlease.client.types import Renewal, RenewStatus
from tests.support.clock import FakeClock

FOUND = Renewal(RenewStatus.RENEWED, 60.0, 1)
LOST = Renewal(RenewStatus.NOT_FOUND, 0.0, 0)


def a_plan(*holds: Hold) -> RenewalPlan:
    plan = RenewalPlan(chance=lambda: 0.0)
    for hold in holds:
        plan.add(hold)
    return plan


def a_hold(ttl: float = 60.0, due: float = 0.0) -> Hold:
    return Hold("conversation", ttl, due)


@pytest.mark.parametrize("ttl", [0.0, -1.0, math.inf, math.nan])
def test_a_ttl_that_no_renewal_can_keep_is_refused(ttl: float) -> None:
    with pytest.raises(ValueError, match="ttl"):
        a_hold(ttl)


def test_nothing_held_is_nothing_to_wait_for() -> None:
    assert a_plan().wait(0.0) is None


def test_a_new_hold_is_due_and_not_yet_held() -> None:
    hold = a_hold()

    assert a_plan(hold).due(0.0) == [hold]
    assert hold.remaining(0.0) == 0.0


def test_what_is_promised_counts_from_sending() -> None:
    hold = a_hold()

    a_plan(hold).answered([(hold, FOUND)], sent_at=10.0, now=15.0)

    assert hold.remaining(15.0) == 55.0
    assert hold.remaining(69.0) == 1.0
    assert hold.remaining(70.0) == 0.0


@pytest.mark.parametrize(
    ("ttl", "remaining", "due"),
    [
        (30.0, 30.0, 20.0),  # a third of what was asked for
        (30.0, 480.0, 20.0),  # also where the lease lives longer
        (30.0, 6.0, 12.0),  # a third of what remains, where that is less
        (480.0, 480.0, 25.0),  # and every 15 s at the latest
    ],
)
def test_it_is_renewed_in_time(ttl: float, remaining: float, due: float) -> None:
    hold = a_hold(ttl)
    plan = a_plan(hold)

    plan.answered([(hold, Renewal(RenewStatus.RENEWED, remaining, 1))], sent_at=10.0, now=11.0)

    assert plan.due(due - 0.01) == []
    assert plan.due(due + 0.01) == [hold]


def test_no_more_is_counted_on_than_was_asked_for() -> None:
    hold = a_hold(ttl=30.0)

    a_plan(hold).answered([(hold, FOUND)], sent_at=0.0, now=0.0)

    assert hold.remaining(0.0) == 30.0


def test_a_lost_lease_is_told_once_and_asked_for_again() -> None:
    hold = a_hold()
    plan = a_plan(hold)
    plan.answered([(hold, FOUND)], sent_at=0.0, now=0.0)

    assert plan.answered([(hold, LOST)], sent_at=20.0, now=20.0) == [hold]
    assert hold.remaining(20.0) == 0.0
    assert plan.due(20.0 + SHORTEST_PAUSE) == [hold]
    assert plan.answered([(hold, LOST)], sent_at=21.0, now=21.0) == []


def test_the_next_turns_lease_is_held_again() -> None:
    hold = a_hold()
    plan = a_plan(hold)
    plan.answered([(hold, LOST)], sent_at=0.0, now=0.0)

    plan.answered([(hold, FOUND)], sent_at=1.0, now=1.0)

    assert hold.remaining(1.0) == 60.0


def test_a_conversation_without_a_lease_is_asked_for_less_and_less_often() -> None:
    hold, now = a_hold(ttl=3.0), 0.0
    plan = a_plan(hold)

    pauses = []
    for _ in range(7):
        plan.answered([(hold, LOST)], sent_at=now, now=now)
        pauses.append(round(hold.due - now, 6))
        now = hold.due

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]


def test_a_failure_takes_nothing_of_what_was_promised() -> None:
    hold = a_hold()
    plan = a_plan(hold)
    plan.answered([(hold, FOUND)], sent_at=0.0, now=0.0)

    plan.failed([hold], now=20.0)

    assert hold.remaining(20.0) == 40.0
    assert plan.due(20.0 + SHORTEST_PAUSE) == [hold]


def test_a_registry_that_cannot_be_asked_three_times_in_a_row_promises_nothing() -> None:
    hold = a_hold()
    plan = a_plan(hold)
    plan.answered([(hold, FOUND)], sent_at=0.0, now=0.0)

    for left in (40.0, 40.0, 0.0):
        plan.failed([hold], now=20.0)
        assert hold.remaining(20.0) == left

    plan.answered([(hold, FOUND)], sent_at=21.0, now=21.0)
    assert hold.remaining(21.0) == 60.0


def test_what_may_be_gone_is_not_held_and_asked_for_at_once() -> None:
    ended, other = a_hold(), Hold("other", 60.0, due=0.0)
    plan = a_plan(ended, other)
    plan.answered([(ended, FOUND), (other, FOUND)], sent_at=0.0, now=0.0)

    plan.doubt(5.0, "conversation")

    assert (ended.remaining(5.0), other.remaining(5.0)) == (0.0, 55.0)
    assert plan.due(5.0) == [ended]


def test_any_lease_may_be_gone() -> None:
    hold = a_hold()
    plan = a_plan(hold)
    plan.answered([(hold, FOUND)], sent_at=0.0, now=0.0)

    plan.doubt(5.0)

    assert hold.remaining(5.0) == 0.0


def test_a_renewal_that_was_under_way_does_not_bring_back_what_was_ended() -> None:
    hold = a_hold()
    plan = a_plan(hold)

    plan.doubt(5.0, "conversation")
    plan.answered([(hold, FOUND)], sent_at=4.9, now=5.1)
    assert hold.remaining(5.1) == 0.0

    plan.answered([(hold, FOUND)], sent_at=5.2, now=5.3)
    assert hold.remaining(5.3) == pytest.approx(59.9)


def test_where_the_registry_may_not_know_yet_it_is_asked_until_it_does() -> None:
    hold = a_hold()
    plan = a_plan(hold)

    plan.doubt(5.0, "conversation", until=20.0)
    plan.answered([(hold, FOUND)], sent_at=19.0, now=19.0)
    assert hold.remaining(19.0) == 0.0
    assert plan.due(20.0) == [hold]

    plan.answered([(hold, FOUND)], sent_at=20.0, now=20.0)
    assert hold.remaining(20.0) == 60.0


def test_the_next_answer_ends_the_doubt() -> None:
    hold = a_hold()
    plan = a_plan(hold)

    plan.doubt(5.0, "conversation", until=20.0)
    plan.soon(hold, now=6.0)
    plan.answered([(hold, FOUND)], sent_at=6.0, now=6.0)

    assert hold.remaining(6.0) == 60.0


def test_what_is_due_soon_goes_with_what_is_due() -> None:
    due, soon, later = a_hold(due=10.0), a_hold(due=10.9), a_hold(due=11.1)
    plan = a_plan(due, soon, later)

    assert plan.due(9.9) == []
    assert set(plan.due(10.0)) == {due, soon}


def test_what_is_let_go_is_not_renewed() -> None:
    hold = a_hold()
    plan = a_plan(hold)

    plan.remove(hold)

    assert plan.due(math.inf) == []
    assert len(plan) == 0


@dataclass
class Registry:
    """One conversation's lease, by the registry's own account."""

    until: float

    def renew(self, ttl: float, now: float) -> Renewal:
        if now >= self.until:
            return LOST
        self.until = max(self.until, now + ttl)
        return Renewal(RenewStatus.RENEWED, self.until - now, 1)


@dataclass(frozen=True)
class Fate:
    """What becomes of one call: shares of the time limit that its ways take, and what is lost."""

    out: float
    back: float
    request_lost: bool
    answer_lost: bool


ways = st.floats(0.0, 0.49)
fates = st.lists(st.builds(Fate, ways, ways, st.booleans(), st.booleans()), min_size=1, max_size=60)
fair = st.builds(Fate, ways, ways, st.just(value=False), st.just(value=False))
foul = st.builds(Fate, ways, ways, st.just(value=True), st.just(value=False))
one_or_two_lost = st.lists(st.tuples(fair, st.lists(foul, max_size=2)), min_size=1, max_size=20)
ttls = st.floats(3.0, 600.0)
chances = st.floats(0.0, 0.999)


def call(plan: RenewalPlan, hold: Hold, registry: Registry, clock: FakeClock, fate: Fate) -> None:
    """Makes one renewal, and moves the clock by the time that it takes."""
    sent_at, limit = clock.now, call_timeout([hold])
    arrived = sent_at + fate.out * limit
    answer = None if fate.request_lost else registry.renew(hold.ttl, arrived)
    if answer is None or fate.answer_lost:
        clock.now = sent_at + limit
        plan.failed([hold], clock.now)
    else:
        clock.now = arrived + fate.back * limit
        plan.answered([(hold, answer)], sent_at, clock.now)


@given(ttl=ttls, first=st.floats(0.0, 600.0), chance=chances, fates=fates)
def test_held_is_never_claimed_longer_than_the_registry_keeps_it(
    ttl: float, first: float, chance: float, fates: list[Fate]
) -> None:
    clock = FakeClock(0.0)
    plan, hold, registry = RenewalPlan(lambda: chance), Hold("c", ttl, due=0.0), Registry(until=first)
    plan.add(hold)

    for fate in fates:
        clock.now = max(clock.now, hold.due)
        call(plan, hold, registry, clock, fate)
        assert hold.until <= registry.until + 1e-6


@given(ttl=ttls, chance=chances, rounds=one_or_two_lost)
def test_two_renewals_lost_in_a_row_lose_no_lease(
    ttl: float, chance: float, rounds: list[tuple[Fate, list[Fate]]]
) -> None:
    clock = FakeClock(0.0)
    plan, hold, registry = RenewalPlan(lambda: chance), Hold("c", ttl, due=0.0), Registry(until=ttl)
    plan.add(hold)

    for fate in (fate for kept, lost in rounds for fate in (*lost, kept)):
        clock.now = max(clock.now, hold.due)
        call(plan, hold, registry, clock, fate)
        assert clock.now < registry.until


@given(ttl=st.floats(0.01, 600.0), first=st.floats(0.0, 600.0), chance=chances, fates=fates)
def test_a_plan_never_spins_and_never_sleeps_through(
    ttl: float, first: float, chance: float, fates: list[Fate]
) -> None:
    clock = FakeClock(0.0)
    plan, hold, registry = RenewalPlan(lambda: chance), Hold("c", ttl, due=0.0), Registry(until=first)
    plan.add(hold)

    for fate in fates:
        call(plan, hold, registry, clock, fate)
        wait = plan.wait(clock.now)

        assert wait is not None
        assert SHORTEST_PAUSE * 0.8 - 1e-6 <= wait <= ttl / 3 + SHORTEST_PAUSE + 1e-6
        clock.advance(wait)
        assert plan.due(clock.now + 1e-9) == [hold]
