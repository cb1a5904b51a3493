"""The moves of a lease: taken, adopted, retired, ordered free, freed. Only these change its state and the counts.

LIVE --retire--> RETIRING --last claim over--> FREEING --owner confirms--> FREED
"""

from kvlease.registry.change import Event
from kvlease.registry.lease import Kind, Lease, Reason, State
from kvlease.registry.ledger import Ledger
from kvlease.registry.roll import Roll
from kvlease.registry.session import Order, Session

LET_GO = (Reason.EXPIRED, Reason.ENDED, Reason.REVOKED, Reason.BRANCH_LIMIT)


def add(ledger: Ledger, lease: Lease) -> None:
    """Takes a new live lease."""
    terms = lease.terms
    ledger.gone.pop(lease.lease_id, None)
    ledger.leases[lease.lease_id] = lease
    lease.owner.leases[lease.lease_id] = lease
    if terms.conversation.conversation_id:
        ledger.branches(terms.conversation).add(lease)
    ledger.tenants.setdefault(terms.conversation.tenant, Roll()).add(lease)
    tally(ledger, lease, 1)
    _expire_in_time(ledger, lease)
    ledger.tell(Event.GRANTED, lease)


def adopt(ledger: Ledger, lease: Lease, session: Session) -> None:
    """Moves a lease to the newer session of the same process, which has shown that it still holds it."""
    before = lease.owner
    if before is session:
        return
    tally(ledger, lease, -1)
    del before.leases[lease.lease_id]
    lease.owner = session
    session.leases[lease.lease_id] = lease
    before.notices.pop(lease.lease_id, None)
    session.notices[lease.lease_id] = None
    if before.orders.pop(lease.lease_id, None):
        session.orders[lease.lease_id] = Order(lease.reason)
    tally(ledger, lease, 1)


def retire(ledger: Ledger, lease: Lease, reason: Reason) -> bool:
    """Takes a lease out of use; it is freed when its last claim ends. False when it was out of use already."""
    if lease.state is not State.LIVE:
        return False
    leave(ledger, lease, reason)
    settle(ledger, lease)
    return True


def leave(ledger: Ledger, lease: Lease, reason: Reason) -> None:
    """Takes a live lease out of use and does no more."""
    lease.reason = reason
    _move(ledger, lease, State.RETIRING)
    ledger.tell(Event.RETIRED, lease)
    ledger.touched.append(("turn", lease.terms.ticket_id))
    _learn(ledger, lease, reason)


def settle(ledger: Ledger, lease: Lease) -> None:
    """Orders a retiring lease free, unless somebody reads it, or may be reading it unknown to this life."""
    if lease.state is not State.RETIRING or lease.claims:
        return
    if ledger.quiet:
        ledger.timers.at(ledger.quiet_until, _settle_later, lease.lease_id)
    elif lease.owner.open:
        _move(ledger, lease, State.FREEING)
        lease.owner.orders[lease.lease_id] = Order(lease.reason)
        ledger.touched.append(("lease", lease.lease_id))
    else:
        free(ledger, lease)


def free(ledger: Ledger, lease: Lease, reason: Reason = Reason.OWNER_LOST) -> None:
    """Lets a lease go for good: its blocks are free, or its owner is gone. The reason counts if it was still live."""
    if lease.state is State.LIVE:
        leave(ledger, lease, reason)
    owner, conversation = lease.owner, lease.terms.conversation
    _move(ledger, lease, State.FREED)
    del ledger.leases[lease.lease_id], owner.leases[lease.lease_id]
    owner.orders.pop(lease.lease_id, None)
    owner.notices.pop(lease.lease_id, None)
    if conversation.conversation_id:
        ledger.branches(conversation).remove(lease)
        ledger.forget_in_time(conversation)
    ledger.tenants[conversation.tenant].remove(lease)
    if not ledger.tenants[conversation.tenant]:
        del ledger.tenants[conversation.tenant]
    ledger.bury(lease.lease_id, owner.engine.ref)
    ledger.tell(Event.FREED, lease)
    ledger.touched.append(("lease", lease.lease_id))


def tally(ledger: Ledger, lease: Lease, sign: int) -> None:
    """Adds a lease to the counts, or takes it out, as it is at this moment: to be done around every change."""
    lease.owner.tally(lease, sign)
    if lease.terms.kind is Kind.DECODE and lease.state is State.LIVE:
        ledger.tenants[lease.terms.conversation.tenant].live += sign


def expire_at(ledger: Ledger, lease: Lease, when: float) -> None:
    """Sets when a live lease expires, which its owner is told."""
    earlier = when < lease.expires_at
    lease.expires_at = when
    lease.owner.notices[lease.lease_id] = None
    if earlier:
        _expire_in_time(ledger, lease)


def _move(ledger: Ledger, lease: Lease, state: State) -> None:
    tally(ledger, lease, -1)
    lease.state = state
    tally(ledger, lease, 1)


def _settle_later(ledger: Ledger, lease_id: str) -> None:
    if lease := ledger.leases.get(lease_id):
        settle(ledger, lease)


def _expire_in_time(ledger: Ledger, lease: Lease) -> None:
    ledger.timers.at(lease.expires_at, _expire, lease.lease_id)


def _expire(ledger: Ledger, lease_id: str) -> None:
    lease = ledger.leases.get(lease_id)
    if lease is None or lease.state is not State.LIVE:
        return
    if lease.expires_at > ledger.now:
        _expire_in_time(ledger, lease)
    else:
        retire(ledger, lease, Reason.EXPIRED)


def _learn(ledger: Ledger, lease: Lease, reason: Reason) -> None:
    """Tells the value policy how long the next turn let wait for it, or that none came in so long."""
    if lease.returned or lease.terms.kind is Kind.PREFILL:
        return
    if reason is Reason.SUPERSEDED:
        ledger.value.observed(lease.stop_reason, ledger.now - lease.granted_at, came=True)
    elif reason in LET_GO:
        ledger.value.observed(lease.stop_reason, ledger.now - lease.granted_at, came=False)
