"""What an engine has promised is kept until it may be freed, and what it freed is told until it was heard."""

from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvlease.connector.owner import Owner
from kvlease.v1.registry_pb2 import Order
from tests.connector.grants import free, grant, remaining

HOLD = 12.0


def owner(*lease_ids: str, now: float = 0.0) -> Owner:
    """An owner in a session that was opened at *now*, with these leases granted for 60 s."""
    made = Owner()
    made.opened(HOLD, now)
    for lease_id in lease_ids:
        made.keep(grant(lease_id), now)
        made.granted(lease_id, 1, 60.0, now)
    return made


# -- when blocks may be freed ----------------------------------------------------------------------------------------


def test_nothing_is_freed_without_a_reason() -> None:
    assert owner("l").due(HOLD) == {}


def test_blocks_are_freed_on_an_order() -> None:
    held = owner("l", "m")

    held.answered(1, [free("l")], 1.0, 0)

    assert held.waiting
    assert held.due(1.0) == {"l": "RETIRE_REASON_EXPIRED"}
    assert not held.waiting
    assert held.leases == 1


@pytest.mark.parametrize("why", ["released", "BUDGET_EXHAUSTED", "over when announced"])
def test_blocks_are_freed_when_the_registry_answered_that_there_is_no_lease(why: str) -> None:
    held = owner("l")

    held.over("l", why)

    assert held.due(1.0) == {"l": why}


def test_blocks_are_freed_when_the_registry_was_silent_for_longer_than_the_hold() -> None:
    held = owner("l", "m")

    assert not held.silent(HOLD)
    assert held.silent(HOLD + 0.001)
    assert set(held.due(HOLD + 0.001)) == {"l", "m"}
    assert held.leases == 0


def test_the_hold_counts_from_the_receipt_of_the_last_answer() -> None:
    held = owner("l")

    held.answered(1, [], 10.0, 0)

    assert held.due(10.0 + HOLD) == {}
    assert set(held.due(10.0 + HOLD + 0.001)) == {"l"}


def test_an_expired_lease_is_kept_until_it_is_ordered_free() -> None:
    held = owner("l")
    for second in range(100):
        held.answered(second, [], float(second), 0)

    assert held.due(100.0) == {}


def test_a_grant_whose_answer_was_lost_is_held() -> None:
    held = owner()
    held.keep(grant("l"), 0.0)

    held.answered(1, [], 5.0, 0)

    assert held.due(5.0 + HOLD) == {}
    assert held.holds("l")


def test_silence_without_leases_is_nothing() -> None:
    assert not owner().silent(1000.0)
    assert owner().due(1000.0) == {}


def test_what_is_kept_before_the_first_session_is_held_from_then() -> None:
    early = Owner()
    early.keep(grant("l"), 100.0)
    early.opened(HOLD, 101.0)

    assert early.due(101.0 + HOLD) == {}
    assert set(early.due(101.0 + HOLD + 0.001)) == {"l"}


def test_after_a_silence_the_next_lease_has_a_hold_of_its_own() -> None:
    held = owner("l")
    held.due(HOLD + 1.0)
    held.answered(1, [], 100.0, 0)
    held.keep(grant("m"), 101.0)

    assert held.due(100.0 + HOLD) == {}


# -- grants ----------------------------------------------------------------------------------------------------------


def test_a_lease_that_was_freed_meanwhile_is_not_granted() -> None:
    held = owner()
    held.keep(grant("l"), 0.0)
    held.due(HOLD + 1.0)

    assert not held.granted("l", 1, 60.0, HOLD + 1.0)


def test_a_lease_that_is_due_is_not_held() -> None:
    held = owner("l")

    held.answered(1, [free("l")], 1.0, 0)

    assert not held.holds("l")


# -- what is told ----------------------------------------------------------------------------------------------------


def test_freed_leases_are_told_until_an_answer_has_heard_them() -> None:
    held = owner("l", "m")
    held.answered(1, [free("l")], 1.0, 0)
    held.due(1.0)

    assert held.report() == (1, ["l"])
    assert held.report() == (1, ["l"])  # no answer came
    held.over("m", "released")
    held.due(1.5)  # while the next request is under way
    held.answered(2, [], 2.0, 1)
    assert held.report() == (2, ["m"])


def test_an_order_that_is_repeated_is_confirmed_again() -> None:
    held = owner("l")
    held.answered(1, [free("l")], 1.0, 0)
    held.due(1.0)
    held.answered(2, [free("l")], 2.0, 1)

    assert held.report() == (2, ["l"])
    assert held.due(2.0) == {}


def test_an_order_for_a_lease_that_was_never_held_is_confirmed() -> None:
    held = owner()

    held.answered(1, [free("x")], 1.0, 0)

    assert held.report() == (1, ["x"])


def test_the_highest_number_is_told_whatever_the_order_of_answers() -> None:
    held = owner()
    for number in (3, 1, 2):
        held.answered(number, [], 1.0, 0)

    assert held.report()[0] == 3


def test_a_new_session_counts_from_the_start() -> None:
    held = owner("l")
    held.answered(7, [free("l")], 1.0, 0)
    held.due(1.0)

    held.opened(HOLD, 2.0)

    assert held.report() == (0, [])


# -- announcements ---------------------------------------------------------------------------------------------------


def test_a_new_session_is_told_what_is_held_and_what_remains_of_it() -> None:
    held = owner("l", now=0.0)

    (lease,) = held.opened(HOLD, 20.0)

    assert (lease.lease_id, lease.generation, lease.remaining.seconds) == ("l", 1, 40)
    asked = grant("l")
    assert (lease.kind, lease.conversation, lease.handle) == (asked.kind, asked.conversation, asked.handle)
    assert (lease.ticket_id, lease.parent_lease_id) == ("ticket", "parent")


def test_what_the_registry_said_last_remains() -> None:
    held = owner("l", now=0.0)
    held.answered(1, [remaining("l", 480)], 10.0, 0)

    (lease,) = held.opened(HOLD, 20.0)

    assert lease.remaining.seconds == 470


def test_a_lease_that_ran_out_has_nothing_left_but_is_announced() -> None:
    held = owner("l", now=0.0)

    (lease,) = held.opened(HOLD, 90.0)

    assert lease.remaining.ToNanoseconds() == 0


def test_a_grant_without_an_answer_is_asked_again_rather_than_announced() -> None:
    held = owner()
    held.keep(grant("l"), 0.0)

    assert held.opened(HOLD, 1.0) == []


def test_what_was_freed_is_not_announced() -> None:
    held = owner("l", "m")
    held.over("l", "released")
    held.due(1.0)

    assert [lease.lease_id for lease in held.opened(HOLD, 2.0)] == ["m"]


def test_what_is_to_be_freed_is_not_announced() -> None:
    """A registry that has forgotten its order would give claims on it."""
    held = owner("l", "m")
    held.answered(1, [free("l")], 1.0, 0)

    assert [lease.lease_id for lease in held.opened(HOLD, 2.0)] == ["m"]


# -- all together, against a model -----------------------------------------------------------------------------------

LEASES = st.sampled_from([f"lease-{i}" for i in range(6)])


class OwnerMachine(RuleBasedStateMachine):
    """The model: leases held, those that may be freed, those whose freeing is to be told."""

    @initialize()
    def open(self) -> None:
        self.now = 0.0
        self.owner = Owner()
        self.owner.opened(HOLD, self.now)
        self.held: set[str] = set()
        self.granted: set[str] = set()
        self.may_go: set[str] = set()
        self.told: list[str] = []
        self.answer: float | None = self.now
        self.number = 0
        self.made = 0

    def _let(self, lease_ids: Iterable[str]) -> None:
        self.may_go |= self.held & set(lease_ids)

    @rule()
    def keep(self) -> None:
        lease_id, self.made = f"lease-{self.made}", self.made + 1
        self.owner.keep(grant(lease_id), self.now)
        self.held.add(lease_id)
        self.answer = self.now if self.answer is None else self.answer

    @rule(lease_id=LEASES)
    def grant_answered(self, lease_id: str) -> None:
        assert self.owner.granted(lease_id, 1, 60.0, self.now) == (lease_id in self.held)
        self.granted |= {lease_id} & self.held

    @rule(lease_id=LEASES)
    def refused_or_released(self, lease_id: str) -> None:
        self.owner.over(lease_id, "why")
        self._let([lease_id])

    @rule(orders=st.sets(LEASES, max_size=3), heard=st.booleans())
    def heartbeat(self, orders: set[str], *, heard: bool) -> None:
        number, freed = self.owner.report()
        assert (number, freed) == (self.number, self.told)
        if not heard:
            return  # the answer was lost
        commands: list[Order] = [free(lease_id) for lease_id in sorted(orders)]
        self.number += 1
        self.owner.answered(self.number, commands, self.now, len(freed))
        self.answer = self.now
        self.told = sorted(orders - self.held)
        self._let(orders)

    @rule()
    def reopen(self) -> None:
        announced = {lease.lease_id for lease in self.owner.opened(HOLD, self.now)}
        assert announced == (self.held & self.granted) - self.may_go
        self.answer, self.number, self.told = self.now, 0, []

    @rule(seconds=st.sampled_from([0.5, 3.0, HOLD, HOLD + 1.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def step(self) -> None:
        if self.held and self.answer is not None and self.now > self.answer + HOLD:
            self._let(self.held)
            self.answer = None  # a hold begins with the next answer, or the next promise

        due = self.owner.due(self.now)

        assert set(due) == self.may_go
        self.told += list(due)
        self.held -= self.may_go
        self.may_go.clear()

    @invariant()
    def counts(self) -> None:
        assert self.owner.leases == len(self.held)
        assert self.owner.waiting == bool(self.may_go)
        assert all(self.owner.holds(lease_id) for lease_id in self.held - self.may_go)


OwnerMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
test_no_lease_is_freed_without_a_reason_and_none_is_forgotten = OwnerMachine.TestCase


def test_what_a_fail_safe_lets_go_is_told_in_the_same_moment() -> None:
    held = owner("l")

    held.due(1000.0)

    assert held.report()[1] == ["l"]
