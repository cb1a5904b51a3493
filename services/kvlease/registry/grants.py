"""Grants: a new lease, and those that must go for it."""

from collections.abc import Sequence
from typing import NamedTuple

from kvlease.registry import life, renewals
from kvlease.registry.errors import BudgetExhausted, IdTaken, IncarnationMismatch, TenantLimit, TurnOver
from kvlease.registry.lease import Kind, Reason, Terms
from kvlease.registry.leases import Lease
from kvlease.registry.ledger import Ledger
from kvlease.registry.session import Credential, Session
from kvlease.registry.worth import least_valuable


class Granted(NamedTuple):
    """A lease's number within its conversation, and how long it lives unrenewed."""

    generation: int
    remaining: float


class Room(NamedTuple):
    """What must go to make room for a lease."""

    superseded: Sequence[Lease] = ()
    pruned: Sequence[Lease] = ()
    revoked: Sequence[Lease] = ()


def grant(ledger: Ledger, credential: Credential, terms: Terms, report: bytes | None) -> Granted:
    """Grants a lease, or returns the one that an earlier attempt got. Retires the leases that it covers.

    A refusal is final, for it tells the owner to free the blocks: a copy of the call that comes later gets no lease.
    While claims of a life before may be live, on a lease that this is the retry of, nobody may be told to free: then
    what would be refused is taken and retired at once, and an order follows.
    """
    session = ledger.session(credential)
    if terms.handle.engine != session.engine.ref:
        raise IncarnationMismatch(terms.handle.engine, session.engine.ref)
    known = ledger.leases.get(terms.lease_id)
    if known is not None:
        return _again(ledger, session, known, terms)
    if terms.conversation.conversation_id:
        ledger.value.came(terms.conversation, ledger.now)
    try:
        room = _admit(ledger, session, terms)
    except (TurnOver, BudgetExhausted, TenantLimit):
        ledger.not_due(terms.conversation, terms.ticket_id)
        if not ledger.quiet:
            ledger.bury(terms.lease_id, session.engine.ref)
            raise
        life.retire(ledger, take(ledger, session, terms), Reason.REVOKED)
        return Granted(0, 0.0)
    _make(ledger, room)
    lease = take(ledger, session, terms, report=report)
    return Granted(lease.generation, lease.expires_at - ledger.now)


def take(
    ledger: Ledger,
    session: Session,
    terms: Terms,
    *,
    report: bytes | None = None,
    generation: int = 0,
    remaining: float | None = None,
) -> Lease:
    """Takes a lease into the books as live, with that generation and life if given, else as the rules say."""
    rules, now = ledger.rules, ledger.now
    turn = ledger.turn(terms.ticket_id) if terms.ticket_id else None
    stop_reason = (turn and turn.stop_reason) or terms.stop_reason
    decode = terms.kind is Kind.DECODE
    number = ledger.conversations.number(terms.conversation, generation) if decode else 0
    lease = ledger.leases.add(terms, session, seq=ledger.next_seq(), generation=number, now=now)
    lease.stop_reason = stop_reason
    if decode:
        ledger.value.granted(lease)
    lease.expires_at += min(_first_ttl(ledger, lease) if remaining is None else remaining, rules.longest_life)
    if decode:
        session.granted_since += lease.blocks
        ledger.not_due(terms.conversation, terms.ticket_id)
    life.add(ledger, lease, terms)
    if turn:
        turn.took(lease, report)
        ledger.touched.append(("turn", terms.ticket_id))
    return lease


def _first_ttl(ledger: Ledger, lease: Lease) -> float:
    """How long a new lease lives unrenewed."""
    learned = renewals.learned_ttl(ledger, lease) if lease.kind is Kind.DECODE else None
    return renewals.natural_ttl(ledger, lease) if learned is None else learned


def _again(ledger: Ledger, session: Session, known: Lease, terms: Terms) -> Granted:
    if known.owner.engine.ref != session.engine.ref or known.terms != terms:
        raise IdTaken("lease", terms.lease_id)
    life.adopt(ledger, known, session)
    return Granted(known.generation, known.remaining(ledger.now))


def _admit(ledger: Ledger, session: Session, terms: Terms) -> Room:
    """Decides what must go for the lease. Raises TurnOver, IdTaken, BudgetExhausted, TenantLimit; changes nothing."""
    if buried := ledger.gone.get(terms.lease_id):
        if buried[0] != session.engine.ref:
            raise IdTaken("lease", terms.lease_id)
        raise TurnOver(terms.ticket_id)
    turn = ledger.turns.get(terms.ticket_id)
    if terms.kind is Kind.DECODE:
        if turn and turn.cancelled:
            raise TurnOver(terms.ticket_id)
        return _room(ledger, session, terms)
    if turn and not turn.takes_prefill:
        raise TurnOver(terms.ticket_id)
    before = ledger.leases.get(turn.prefill) if turn else None
    return Room(superseded=[before] if before else [])


def _room(ledger: Ledger, session: Session, terms: Terms) -> Room:
    branches = ledger.conversations.live(terms.conversation)
    chain = terms.handle.chain
    superseded = [x for x in branches if x.chain.begins(chain, named=x.lease_id == terms.parent_lease_id)]
    others = [x for x in branches if x not in superseded] if len(superseded) < len(branches) else ()
    pruned = _too_many(ledger, others)
    revoked = _over_budget(ledger, session, terms.handle.block_count, [*superseded, *pruned])
    tenant, limit = terms.conversation.tenant, ledger.rules.tenant_leases
    going = len(superseded) + len(pruned) + sum(x.tenant == tenant for x in revoked)
    roll = ledger.tenants.get(tenant)
    if limit and roll and roll.live - going >= limit:
        raise TenantLimit(limit=limit, retry_after=ledger.rules.timing.heartbeat)
    return Room(superseded, pruned, revoked)


def _too_many(ledger: Ledger, branches: Sequence[Lease]) -> Sequence[Lease]:
    """Chooses the branches that must go for one more: unread ones first, the least valuable first."""
    over = len(branches) + 1 - ledger.rules.branches
    if over <= 0:
        return ()
    return sorted(branches, key=lambda x: (x.claims > 0, ledger.value.worth(x, ledger.now), x.seq))[:over]


def _over_budget(ledger: Ledger, session: Session, blocks: int, going: Sequence[Lease]) -> Sequence[Lease]:
    """Chooses the engine's leases that must go for so many more blocks. Raises BudgetExhausted if all are too few."""
    missing = session.retained_blocks + blocks - session.budget - sum(x.blocks for x in going if x.owner is session)
    if missing <= 0:
        return ()
    revoked: list[Lease] = []
    for lease in least_valuable(ledger, (x for x in session.leases.values() if x not in going)):
        if missing <= 0:
            break
        revoked.append(lease)
        missing -= lease.blocks
    if missing > 0:
        retry_after = ledger.rules.timing.heartbeat
        raise BudgetExhausted(wanted=blocks, budget=session.budget, retry_after=retry_after)
    return revoked


def _make(ledger: Ledger, room: Room) -> None:
    for leases, reason in (
        (room.superseded, Reason.SUPERSEDED),
        (room.pruned, Reason.BRANCH_LIMIT),
        (room.revoked, Reason.REVOKED),
    ):
        for lease in leases:
            life.retire(ledger, lease, reason)
