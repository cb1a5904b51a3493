"""What may be looked at: one lease, pages of leases, engines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvlease.registry.errors import LeaseNotFound
from kvlease.registry.lease import Conversation, EngineRef, Kind, State, Terms
from kvlease.registry.leases import Lease
from kvlease.registry.ledger import Ledger
from kvlease.registry.session import Engine, Session
from kvlease.registry.shown import Shown, show


@dataclass(frozen=True, slots=True)
class Filter:
    """Leases of a tenant for which all holds that is given."""

    tenant: str
    conversation_id: str = ""
    engine_id: str = ""
    kind: Kind | None = None
    state: State | None = None

    def takes(self, lease: Terms | Lease, state: State) -> bool:
        """Tells whether a lease in that state is wanted; in any state, where none is given."""
        return (
            self.state in (None, state)
            and self.kind in (None, lease.kind)
            and self.engine_id in ("", lease.engine.engine_id)
            and self.tenant == lease.conversation.tenant
            and self.conversation_id in ("", lease.conversation.conversation_id)
        )


class Page(NamedTuple):
    """Leases, oldest first, and after which one the next page begins; 0 when there is none."""

    leases: Sequence[Shown]
    next_after: int


class Branch(NamedTuple):
    """A live DECODE lease of a conversation."""

    holder: EngineRef
    tokens: int
    generation: int


@dataclass(frozen=True, slots=True)
class EngineShown:
    """An engine and its session at one moment; `silent` in seconds."""

    engine: Engine
    load: bytes
    healthy: bool
    draining: bool
    silent: float
    leases: int
    leased_blocks: int
    claimed_blocks: int
    budget: int


def get(ledger: Ledger, tenant: str, lease_id: str) -> Shown:
    """Shows a lease. Raises LeaseNotFound, also for another tenant's."""
    lease = ledger.leases.get(lease_id)
    if lease is None or lease.tenant != tenant:
        raise LeaseNotFound(lease_id)
    return show(lease, ledger.now)


def page(ledger: Ledger, wanted: Filter, after: int, size: int) -> Page:
    """Shows at most so many of the wanted leases that came after a number; only live ones unless a state is wanted."""
    found: list[Shown] = []
    for lease in _candidates(ledger, wanted, after):
        if not wanted.takes(lease, lease.state) or (wanted.state is None and lease.state is not State.LIVE):
            continue
        if len(found) == size:
            return Page(found, found[-1].seq)
        found.append(show(lease, ledger.now))
    return Page(found, 0)


def locate(ledger: Ledger, conversations: Sequence[Conversation]) -> list[list[Branch]]:
    """Tells where conversations are held: the live DECODE leases of each, oldest first."""
    return [
        [Branch(x.engine, x.tokens, x.generation) for x in ledger.conversations.live(each)] for each in conversations
    ]


def existing(ledger: Ledger, wanted: Filter) -> Sequence[Lease]:
    """All wanted leases that are not freed, oldest first."""
    return [lease for lease in _candidates(ledger, wanted, 0) if wanted.takes(lease, lease.state)]


def engines(ledger: Ledger, model: str, *, include_lost: bool) -> list[EngineShown]:
    """Shows the engines that serve a model (any, if empty), by id; those that are overdue only if asked for."""
    newest = (ledger.engines[key][-1] for key in sorted(ledger.engines))
    shown = (_engine(ledger, x) for x in newest if x.open and (not model or model in x.engine.models))
    return [x for x in shown if include_lost or x.silent < _overdue(ledger)]


def _candidates(ledger: Ledger, wanted: Filter, after: int) -> Iterator[Lease]:
    """Leases after a number, oldest first, from the smallest table that has all wanted ones."""
    if wanted.conversation_id:
        known = ledger.conversations.leases(Conversation(wanted.tenant, wanted.conversation_id))
        yield from (x for x in known if x.seq > after)
    elif wanted.engine_id:
        sessions = ledger.engines.get(wanted.engine_id, ())
        leases = [x for session in sessions for x in session.leases.values() if x.seq > after]
        yield from sorted(leases, key=lambda x: x.seq)
    elif roll := ledger.tenants.get(wanted.tenant):
        yield from roll.after(after)


def _overdue(ledger: Ledger) -> float:
    return ledger.rules.missed_heartbeats * ledger.rules.timing.heartbeat


def _in_time(ledger: Ledger, session: Session) -> bool:
    """Whether its heartbeats come in time; those that may lie unread since this process stood still are waited for."""
    overdue = _overdue(ledger)
    if ledger.now - session.heartbeat_at < overdue:
        return True
    began, ended = ledger.stood_still
    return session.heartbeat_at > began - overdue and ledger.now - ended < overdue


def _engine(ledger: Ledger, session: Session) -> EngineShown:
    silent = ledger.now - session.heartbeat_at
    draining = session.draining or session.drained
    return EngineShown(
        engine=session.engine,
        load=session.load,
        healthy=_in_time(ledger, session) and not draining,
        draining=draining,
        silent=silent,
        leases=session.live_leases,
        leased_blocks=session.leased_blocks,
        claimed_blocks=session.claimed_blocks,
        budget=session.budget,
    )
