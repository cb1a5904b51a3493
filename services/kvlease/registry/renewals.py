"""Renewal: more time for leases that are live. What is over stays over."""

import enum
from collections.abc import Sequence
from typing import NamedTuple

from kvlease.registry import life
from kvlease.registry.change import Event
from kvlease.registry.lease import Conversation, Kind, State, StopReason
from kvlease.registry.leases import Lease
from kvlease.registry.ledger import Ledger


class Outcome(enum.IntEnum):
    """Whether a lease was renewed. Numbers are those of the wire."""

    RENEWED = 1
    NOT_FOUND = 2
    AT_LIMIT = 3


class Renewal(NamedTuple):
    """Renews a lease, or all of a conversation, for so many seconds from now; None: as the rules say."""

    lease_id: str = ""
    conversation_id: str = ""
    ttl: float | None = None


class Renewed(NamedTuple):
    """What became of it: the longest that remains, of so many leases."""

    outcome: Outcome
    remaining: float = 0.0
    leases: int = 0


def renew(ledger: Ledger, tenant: str, renewals: Sequence[Renewal]) -> list[Renewed]:
    """Renews leases of a tenant; one result per renewal."""
    return [_renew(ledger, _concerned(ledger, tenant, renewal), renewal.ttl) for renewal in renewals]


def extend(ledger: Ledger, lease: Lease, ttl: float | None) -> Outcome:
    """Lets a lease live so long from now on, never shorter than it would, never beyond its longest life."""
    if lease.state is not State.LIVE:
        return Outcome.NOT_FOUND
    lease.renewed_at = lease.used_at = ledger.now
    wanted = ledger.now + (natural_ttl(ledger, lease) if ttl is None else ttl)
    until = min(wanted, _lives_until(ledger, lease))
    if until > lease.expires_at:
        life.expire_at(ledger, lease, until)
    elif wanted > lease.expires_at:
        return Outcome.AT_LIMIT
    ledger.tell(Event.RENEWED, lease)
    return Outcome.RENEWED


def reconsider(ledger: Ledger, lease: Lease, stop_reason: StopReason) -> None:
    """Gives a lease, whose stop reason is known now, the life due to it; a shorter one only where lives are learned."""
    lease.stop_reason = stop_reason
    if lease.state is State.LIVE:
        ledger.value.granted(lease)
    learned = learned_ttl(ledger, lease)
    if learned is None or lease.state is not State.LIVE:
        extend(ledger, lease, None)
    else:
        life.expire_at(ledger, lease, min(ledger.now + learned, _lives_until(ledger, lease)))


def learned_ttl(ledger: Ledger, lease: Lease) -> float | None:
    """How long a DECODE lease is worth keeping from now on, by the value policy; None: it leaves that to the rules."""
    worth = ledger.value.life(lease)
    if worth is None:
        return None
    return max(ledger.rules.timing.heartbeat, lease.granted_at + worth - ledger.now)


def natural_ttl(ledger: Ledger, lease: Lease) -> float:
    """How long a lease lives unrenewed by the rules."""
    if lease.kind is Kind.PREFILL:
        return ledger.rules.prefill_ttl
    return ledger.rules.ttl(lease.stop_reason)


def _lives_until(ledger: Ledger, lease: Lease) -> float:
    """No renewal goes beyond."""
    return lease.granted_at + ledger.rules.longest_life


def _concerned(ledger: Ledger, tenant: str, renewal: Renewal) -> list[Lease]:
    if renewal.conversation_id:
        return ledger.conversations.live(Conversation(tenant, renewal.conversation_id))
    lease = ledger.leases.get(renewal.lease_id)
    return [lease] if lease and lease.tenant == tenant and lease.state is State.LIVE else []


def _renew(ledger: Ledger, leases: Sequence[Lease], ttl: float | None) -> Renewed:
    if not leases:
        return Renewed(Outcome.NOT_FOUND)
    outcomes = [extend(ledger, lease, ttl) for lease in leases]
    outcome = Outcome.RENEWED if Outcome.RENEWED in outcomes else Outcome.AT_LIMIT
    return Renewed(outcome, max(lease.expires_at for lease in leases) - ledger.now, len(leases))
