"""Announcements: an owner tells a registry that may have forgotten them which leases it still holds."""

from collections.abc import Sequence
from typing import NamedTuple

from kvlease.registry import life
from kvlease.registry.errors import IncarnationMismatch
from kvlease.registry.grants import take
from kvlease.registry.lease import Kind, Reason, State, Terms
from kvlease.registry.leases import Lease
from kvlease.registry.ledger import Ledger
from kvlease.registry.session import Credential, Session


class Announced(NamedTuple):
    """A lease as its owner knows it; `remaining` in seconds."""

    terms: Terms
    generation: int
    remaining: float


class Announcement(NamedTuple):
    """What became of it: kept, or over (then the owner frees it)."""

    lease_id: str
    kept: bool
    generation: int = 0


def announce(ledger: Ledger, credential: Credential, leases: Sequence[Announced]) -> list[Announcement]:
    """Takes or keeps the leases that are not over; one result each. Raises IncarnationMismatch, taking none."""
    session = ledger.session(credential)
    for announced in leases:
        if announced.terms.handle.engine != session.engine.ref:
            raise IncarnationMismatch(announced.terms.handle.engine, session.engine.ref)
    return [_announce(ledger, session, announced) for announced in leases]


def _announce(ledger: Ledger, session: Session, announced: Announced) -> Announcement:
    terms = announced.terms
    known = ledger.leases.get(terms.lease_id)
    if known is not None:
        return _known(ledger, session, known)
    turn = ledger.turns.get(terms.ticket_id)
    late = terms.kind is Kind.PREFILL and turn is not None and not turn.takes_prefill
    over = announced.remaining <= 0 or terms.lease_id in ledger.gone or late
    if over and not ledger.quiet:
        return Announcement(terms.lease_id, kept=False)
    lease = take(ledger, session, terms, generation=announced.generation, remaining=announced.remaining)
    if over:
        life.retire(ledger, lease, Reason.EXPIRED)  # an order follows once no forgotten claim can be live
    return Announcement(terms.lease_id, kept=True, generation=lease.generation)


def _known(ledger: Ledger, session: Session, lease: Lease) -> Announcement:
    """Keeps what the registry knows of it; a lease that waits only to be freed may be freed at once."""
    if lease.owner.engine.ref != session.engine.ref:
        return Announcement(lease.lease_id, kept=False)
    life.adopt(ledger, lease, session)
    if lease.state is State.FREEING:
        life.free(ledger, lease)
        return Announcement(lease.lease_id, kept=False)
    return Announcement(lease.lease_id, kept=True, generation=lease.generation)
