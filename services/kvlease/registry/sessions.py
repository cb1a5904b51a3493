"""Sessions of engines: opened, kept by heartbeats, closed, reaped."""

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from kvlease.registry import life, renewals
from kvlease.registry.errors import EngineNotFound
from kvlease.registry.lease import Reason, State
from kvlease.registry.ledger import Ledger
from kvlease.registry.session import Credential, Engine, Session
from kvlease.registry.worth import least_valuable

log = structlog.get_logger()


class Opened(NamedTuple):
    """A new session."""

    credential: Credential
    boot_id: str
    budget: int


class Beat(NamedTuple):
    """What a heartbeat tells; `leased`: KV blocks kept for leases, shared ones once, 0 if not told."""

    received: int
    load: bytes = b""
    leased: int = 0
    reclaim: int = 0
    freed: Sequence[str] = ()
    renew: Sequence[str] = ()
    draining: bool = False


class Answer(NamedTuple):
    """What is answered to it: leases to free and why, and what remains of others, in seconds."""

    number: int
    boot_id: str
    free: Sequence[tuple[str, Reason]] = ()
    remaining: Sequence[tuple[str, float]] = ()


def open_session(ledger: Ledger, engine: Engine) -> Opened:
    """Opens or replaces an engine's session.

    Leases of another incarnation take no more claims, and are gone when the claims on them are: its process may still
    live and read this. Those of the same one stay, unclaimable, until they are announced in the new session or the old
    one is reaped.
    """
    known = ledger.engines.setdefault(engine.ref.engine_id, [])
    drained = any(before.drained for before in known if before.engine.ref == engine.ref)
    for before in known:
        before.open = False
        if before.engine.ref != engine.ref:
            _retire_all(ledger, before)
    credential = Credential(ledger.token(), ledger.token())
    session = Session(credential, engine, int(ledger.rules.retention * engine.total_blocks), ledger.now)
    session.drained = drained
    ledger.sessions[credential.session_id] = session
    known.append(session)
    _reap_in_time(ledger, session)
    return Opened(credential, ledger.boot_id, session.budget)


def heartbeat(ledger: Ledger, credential: Credential, beat: Beat) -> Answer:
    """Takes note that the engine is alive and what it has received, freed and needs; answers with orders."""
    session = ledger.session(credential)
    session.acknowledge(beat.received)
    session.heartbeat_at = ledger.now
    session.draining = beat.draining
    session.load = beat.load
    session.reported_blocks, session.granted_since = beat.leased, 0
    _confirm(ledger, session, beat.freed)
    for lease_id in beat.renew:
        if lease := ledger.held(session, lease_id):
            renewals.extend(ledger, lease, None)
    _reclaim(ledger, session, beat.reclaim)
    number = session.answer(ledger.now)
    orders = [(key, order.reason) for key, order in session.orders.items() if not order.received]
    renewed = [(key, ledger.leases.get(key)) for key in session.notices]
    remaining = [(key, x.remaining(ledger.now)) for key, x in renewed if x and x.state is State.LIVE]
    return Answer(number, ledger.boot_id, orders, remaining)


def drain(ledger: Ledger, engine_id: str, *, undo: bool) -> None:
    """Takes an engine, as it runs now, out of what routers choose from, or puts it back. Raises EngineNotFound."""
    known = [session for session in ledger.engines.get(engine_id, ()) if session.open]
    if not known:
        raise EngineNotFound(engine_id)
    for session in known:
        session.drained = not undo


def close_session(ledger: Ledger, credential: Credential) -> None:
    """Closes a session: its leases take no more claims, and are gone when the claims on them are."""
    session = ledger.any_session(credential)
    session.open = False
    _retire_all(ledger, session)


def _confirm(ledger: Ledger, session: Session, freed: Sequence[str]) -> None:
    """Lets go of what the owner has freed. What it was told long ago and never names, it does not have."""
    for lease_id in freed:
        _forget(ledger, session, lease_id)
    for lease_id in session.receive_orders():
        due = ledger.now + ledger.rules.timing.hold
        ledger.timers.at(due, _forget_unnamed, (session.credential.session_id, lease_id))


def _forget(ledger: Ledger, session: Session, lease_id: str) -> None:
    session.orders.pop(lease_id, None)
    if lease := ledger.held(session, lease_id):
        life.free(ledger, lease, Reason.RELEASED)


def _forget_unnamed(ledger: Ledger, key: tuple[str, str]) -> None:
    session_id, lease_id = key
    session = ledger.sessions.get(session_id)
    if session and lease_id in session.orders:
        _forget(ledger, session, lease_id)


def _reclaim(ledger: Ledger, session: Session, blocks: int) -> None:
    """Revokes leases until so many blocks are on their way back: what is ordered free already counts."""
    missing = blocks - session.freeing_blocks
    if missing <= 0 or ledger.quiet:
        return
    for lease in least_valuable(ledger, session.leases.values()):
        life.retire(ledger, lease, Reason.REVOKED)
        missing -= lease.blocks
        if missing <= 0:
            return


def _reap_in_time(ledger: Ledger, session: Session) -> None:
    ledger.timers.at(session.heartbeat_at + ledger.rules.timing.hold, _reap, session.credential.session_id)


def _reap(ledger: Ledger, session_id: str) -> None:
    """Lets go of a session that was silent for `hold`: no claim reaches so far, and the owner frees by itself."""
    session = ledger.sessions[session_id]
    if session.heartbeat_at + ledger.rules.timing.hold > ledger.now:
        _reap_in_time(ledger, session)
        return
    if session.open:
        log.warning("session lost", engine=session.engine.ref.engine_id, leases=len(session.leases))
    session.open = False
    _lose_all(ledger, session)
    del ledger.sessions[session_id]
    known = ledger.engines[session.engine.ref.engine_id]
    known.remove(session)
    if not known:
        del ledger.engines[session.engine.ref.engine_id]


def _retire_all(ledger: Ledger, session: Session) -> None:
    for lease in list(session.leases.values()):
        if lease.state is State.FREEING:
            life.free(ledger, lease)
        else:
            life.retire(ledger, lease, Reason.OWNER_LOST)


def _lose_all(ledger: Ledger, session: Session) -> None:
    for lease in list(session.leases.values()):
        life.free(ledger, lease)
