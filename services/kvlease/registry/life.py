"""The moves of a lease: taken, adopted, retired, ordered free, freed. Only these change its state and the counts.

LIVE --retire--> RETIRING --last claim over--> FREEING --owner confirms--> FREED
"""

from kvlease.registry.change import Event
from kvlease.registry.lease import Kind, Reason, State, Terms
from kvlease.registry.leases import Lease
from kvlease.registry.ledger import Ledger
from kvlease.registry.roll import Roll
from kvlease.registry.session import Order, Session

LET_GO = (Reason.EXPIRED, Reason.ENDED, Reason.REVOKED, Reason.BRANCH_LIMIT)


def add(ledger: Ledger, lease: Lease, terms: Terms) -> None:
    """Takes a new live lease, of these terms."""
    conversation = terms.conversation
    ledger.gone.pop(terms.lease_id, None)
    lease.owner.leases.add(lease)
    if conversation.conversation_id:
        ledger.conversations.add(conversation, lease)
    roll = ledger.tenants.get(conversation.tenant)
    if roll is None:
        roll = ledger.tenants[conversation.tenant] = Roll(ledger.leases)
    roll.add(lease)
    tally(ledger, lease, 1)
    _expire_in_time(ledger, lease)
    ledger.tell(Event.GRANTED, lease)


def adopt(ledger: Ledger, lease: Lease, session: Session) -> None:
    """Moves a lease to the newer session of the same process, which has shown that it still holds it."""
    before = lease.owner
    if before is session:
        return
    tally(ledger, lease, -1)
    before.leases.remove(lease)
    lease.owner = session
    session.leases.add(lease)
    lease_id = lease.lease_id
    before.notices.pop(lease_id, None)
    session.notices[lease_id] = None
    if before.orders.pop(lease_id, None):
        session.orders[lease_id] = Order(lease.reason)
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
    ledger.touched.append(("turn", lease.ticket_id))
    _learn(ledger, lease, reason)


def settle(ledger: Ledger, lease: Lease) -> None:
    """Orders a retiring lease free, unless somebody reads it, or may be reading it unknown to this life."""
    if lease.state is not State.RETIRING or lease.claims:
        return
    if ledger.quiet:
        ledger.timers.at(ledger.quiet_until, _settle_later, lease.lease_id)
    elif lease.owner.open:
        _move(ledger, lease, State.FREEING)
        lease_id = lease.lease_id
        lease.owner.orders[lease_id] = Order(lease.reason)
        ledger.touched.append(("lease", lease_id))
    else:
        free(ledger, lease)


def free(ledger: Ledger, lease: Lease, reason: Reason = Reason.OWNER_LOST) -> None:
    """Lets a lease go for good: its blocks are free, or its owner is gone. The reason counts if it was still live."""
    if lease.state is State.LIVE:
        leave(ledger, lease, reason)
    lease_id, owner, conversation = lease.lease_id, lease.owner, lease.conversation
    _move(ledger, lease, State.FREED)
    ledger.leases.remove(lease)
    owner.leases.remove(lease)
    owner.orders.pop(lease_id, None)
    owner.notices.pop(lease_id, None)
    if conversation.conversation_id:
        ledger.conversations.remove(conversation, lease)
        ledger.forget_in_time(conversation)
    ledger.tenants[conversation.tenant].remove(lease)
    if not ledger.tenants[conversation.tenant]:
        del ledger.tenants[conversation.tenant]
    ledger.bury(lease_id, owner.engine.ref)
    ledger.tell(Event.FREED, lease)
    ledger.touched.append(("lease", lease_id))


def tally(ledger: Ledger, lease: Lease, sign: int) -> None:
    """Adds a lease to the counts, or takes it out, as it is at this moment."""
    lease.owner.tally(lease, sign)
    if lease.kind is Kind.DECODE and lease.state is State.LIVE:
        ledger.tenants[lease.tenant].live += sign


def expire_at(ledger: Ledger, lease: Lease, when: float) -> None:
    """Sets when a live lease expires, which its owner is told."""
    lease.expires_at = when
    lease.owner.notices[lease.lease_id] = None
    if when < lease.looked_at:
        _expire_in_time(ledger, lease)


def _move(ledger: Ledger, lease: Lease, state: State) -> None:
    if lease.kind is Kind.DECODE:
        ledger.tenants[lease.tenant].live += (state is State.LIVE) - (lease.state is State.LIVE)
    lease.owner.move(lease, state)


def _settle_later(ledger: Ledger, lease_id: str) -> None:
    if lease := ledger.leases.get(lease_id):
        settle(ledger, lease)


def _expire_in_time(ledger: Ledger, lease: Lease) -> None:
    lease.looked_at = lease.expires_at
    ledger.timers.at(lease.expires_at, _expire, lease.row)


def _expire(ledger: Ledger, row: int) -> None:
    """Looks whether a lease has expired; if another one has its row by now, it has a timer of its own."""
    lease = ledger.leases.row(row)
    if lease.state is not State.LIVE or lease.looked_at > ledger.now:
        return
    if lease.expires_at > ledger.now:
        _expire_in_time(ledger, lease)
    else:
        retire(ledger, lease, Reason.EXPIRED)


def _learn(ledger: Ledger, lease: Lease, reason: Reason) -> None:
    """Tells the value policy how long the next turn let wait for it, or that none came in so long."""
    if lease.returned or lease.kind is Kind.PREFILL:
        return
    if reason is Reason.SUPERSEDED:
        ledger.value.observed(lease.stop_reason, ledger.now - lease.granted_at, came=True)
    elif reason in LET_GO:
        ledger.value.observed(lease.stop_reason, ledger.now - lease.granted_at, came=False)
