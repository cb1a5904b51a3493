"""Faults of the protocol, put in on purpose: each is a small change to one part, and the machine must notice it."""

from collections.abc import Callable
from typing import Any

import pytest

from kvlease.connector.owner import Owner
from kvlease.connector.session import Session as EngineSession
from kvlease.connector.turn import Turn
from kvlease.registry import life, renewals, sessions
from kvlease.registry.lease import State
from kvlease.registry.leases import Lease
from kvlease.registry.ledger import Ledger
from kvlease.registry.session import Session
from kvlease.v1.registry_pb2 import ReadOutcome


def renewal_revives(patch: pytest.MonkeyPatch) -> None:
    """A renewal brings a lease back that is over and waits for its last reader, or for its owner."""
    extend = renewals.extend

    def revived(ledger: Ledger, lease: Lease, ttl: float | None) -> renewals.Outcome:
        if lease.state in (State.RETIRING, State.FREEING):
            lease.owner.orders.pop(lease.lease_id, None)
            life._move(ledger, lease, State.LIVE)
        return extend(ledger, lease, ttl)

    def concerned(ledger: Ledger, tenant: str, renewal: renewals.Renewal) -> list[Lease]:
        return [x for x in ledger.leases.values() if x.terms.conversation == (tenant, renewal.conversation_id)]

    patch.setattr(renewals, "extend", revived)
    patch.setattr(renewals, "_concerned", concerned)


def owner_counts_from_sending(patch: pytest.MonkeyPatch) -> None:
    """An owner's hold begins when it sent a heartbeat, and not when the answer was received."""
    beat_once = EngineSession._beat_once

    async def early(self: EngineSession, *args: Any, **named: Any) -> None:
        clock, sent = self._clock, self._clock()
        self._clock = lambda: sent
        try:
            await beat_once(self, *args, **named)
        finally:
            self._clock = clock

    patch.setattr(EngineSession, "_beat_once", early)


def registry_trusts_what_it_sent(patch: pytest.MonkeyPatch) -> None:
    """The registry counts an owner's promise from the last answer that it sent, received or not."""
    answer = Session.answer

    def trusting(self: Session, now: float) -> int:
        self._promised_from = now
        return answer(self, now)

    patch.setattr(Session, "answer", trusting)


def late_reads_are_used(patch: pytest.MonkeyPatch) -> None:
    """A reader does not look, after the read, whether its claim still held."""

    def judge(_: Turn, __: float, *, failed: bool) -> "ReadOutcome.ValueType":
        return ReadOutcome.READ_OUTCOME_FAILED if failed else ReadOutcome.READ_OUTCOME_USED

    patch.setattr(Turn, "judge", judge)


def claims_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """The registry orders leases free that somebody reads."""
    settle = life.settle

    def careless(ledger: Ledger, lease: Lease) -> None:
        claims, lease.claims = lease.claims, 0
        settle(ledger, lease)
        lease.claims = claims

    patch.setattr(life, "settle", careless)


def amnesia_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """A registry that has just started orders leases free, whatever claims it may have forgotten."""
    patch.setattr(Ledger, "quiet", property(lambda _: False))


def what_is_to_be_freed_is_announced(patch: pytest.MonkeyPatch) -> None:
    """An owner announces all that it holds, also what it was ordered to free."""
    opened = Owner.opened

    def careless(self: Owner, hold: float, now: float) -> list[Any]:
        waiting, self._to_free = self._to_free, {}
        announced = opened(self, hold, now)
        self._to_free = waiting
        return announced

    patch.setattr(Owner, "opened", careless)


def a_successor_ends_claims(patch: pytest.MonkeyPatch) -> None:
    """A new incarnation of an engine ends the claims on the one before, which may still live."""
    patch.setattr(sessions, "_retire_all", sessions._lose_all)


def nobody_frees_by_itself(patch: pytest.MonkeyPatch) -> None:
    """Owners have no fail-safe: what a lost registry never orders free is kept."""
    patch.setattr(Owner, "_silent", lambda _self, _now: False)


MUTATIONS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    renewal_revives: "engines stand still",
    owner_counts_from_sending: "messages go astray",
    registry_trusts_what_it_sent: "everything",
    late_reads_are_used: "engines stand still",
    claims_are_ignored: "engines stand still",
    amnesia_is_ignored: "the registry forgets",
    what_is_to_be_freed_is_announced: "the registry forgets",
    a_successor_ends_claims: "engines are replaced",
    nobody_frees_by_itself: "the registry is not heard",
}
"""And the climate in which each shows soonest."""
