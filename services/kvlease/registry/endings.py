"""Leases taken out of use by those who may: owners give back, applications end, operators revoke."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvlease.registry import life
from kvlease.registry.lease import Conversation, Reason, State
from kvlease.registry.leases import Lease
from kvlease.registry.ledger import Ledger
from kvlease.registry.session import Credential, Order, Session


@dataclass(frozen=True, slots=True)
class Selection:
    """Leases for which all holds that is given."""

    lease_ids: Sequence[str] = ()
    conversation: Conversation | None = None
    engine_id: str = ""


def release(ledger: Ledger, credential: Credential, lease_ids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Gives leases back; returns those that the owner frees now, and those still read, for which orders follow."""
    session = ledger.session(credential)
    released: list[str] = []
    claimed: list[str] = []
    for lease_id in lease_ids:
        (released if _release(ledger, session, lease_id) else claimed).append(lease_id)
    return released, claimed


def end_conversation(ledger: Ledger, conversation: Conversation) -> int:
    """Ends a conversation; returns how many of its leases were live. What is due to be granted is not granted."""
    ledger.value.ended(conversation)
    for ticket_id in ledger.conversations.due(conversation):
        ledger.turn(ticket_id).cancelled = True
        ledger.not_due(conversation, ticket_id)
    return _retire_all(ledger, ledger.conversations.live(conversation), Reason.ENDED)


def revoke(ledger: Ledger, selection: Selection) -> int:
    """Revokes leases; returns how many were live."""
    return _retire_all(ledger, list(_selected(ledger, selection)), Reason.REVOKED)


def _release(ledger: Ledger, session: Session, lease_id: str) -> bool:
    """Takes a lease back, also one whose grant is still to come. The order to free it stands until the owner confirms.

    For this call's answer may be lost.
    """
    lease = ledger.leases.get(lease_id)
    if lease is None and lease_id not in ledger.gone:
        if ledger.quiet:
            _order_later(ledger, session, lease_id)
            return False
        ledger.bury(lease_id, session.engine.ref)
    if lease is None or lease.owner.engine.ref != session.engine.ref:
        return True
    life.adopt(ledger, lease, session)
    life.retire(ledger, lease, Reason.RELEASED)
    return lease.state >= State.FREEING


def _order_later(ledger: Ledger, session: Session, lease_id: str) -> None:
    """Orders a lease free that this life never knew, once no claim of the life before can be live on it."""
    ledger.timers.at(ledger.quiet_until, _order_unknown, (session.credential.session_id, lease_id))


def _order_unknown(ledger: Ledger, key: tuple[str, str]) -> None:
    session_id, lease_id = key
    session = ledger.sessions.get(session_id)
    if session is None or not session.open or lease_id in ledger.gone:
        return
    lease = ledger.leases.get(lease_id)
    if lease is None:
        ledger.bury(lease_id, session.engine.ref)
        session.orders[lease_id] = Order(Reason.RELEASED)
    elif lease.owner is session:
        life.retire(ledger, lease, Reason.RELEASED)


def _retire_all(ledger: Ledger, leases: Iterable[Lease], reason: Reason) -> int:
    return sum(life.retire(ledger, lease, reason) for lease in leases)


def _selected(ledger: Ledger, selection: Selection) -> Iterable[Lease]:
    """Looks where the fewest are, then tests the rest."""
    if selection.lease_ids:
        candidates: Iterable[Lease] = filter(None, map(ledger.leases.get, selection.lease_ids))
    elif selection.conversation:
        candidates = ledger.conversations.leases(selection.conversation)
    else:
        sessions = ledger.engines.get(selection.engine_id, ())
        candidates = [lease for session in sessions for lease in session.leases.values()]
    for lease in candidates:
        of_conversation = selection.conversation in (None, lease.conversation)
        if of_conversation and selection.engine_id in ("", lease.engine.engine_id):
            yield lease
