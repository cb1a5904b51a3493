"""Claims: readers' shared holds. Under a live claim nothing is freed, and none outlives its owner's promise."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kvlease.registry import life
from kvlease.registry.chain import Prompt
from kvlease.registry.change import Event, Topic
from kvlease.registry.errors import (
    ClaimLost,
    IdTaken,
    LeaseNotFound,
    NoLease,
    NoMatch,
    PrefillFailed,
    PrefillPending,
    PromiseTooShort,
)
from kvlease.registry.lease import Claim, Conversation, EngineRef, Kind, Reason, State
from kvlease.registry.leases import Lease
from kvlease.registry.ledger import Ledger
from kvlease.registry.session import Credential
from kvlease.registry.shown import Shown, show


@dataclass(frozen=True, slots=True)
class Branch:
    """The best branch of a conversation for a prompt."""

    conversation: Conversation
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Prefill:
    """The PREFILL lease of a turn, and whose it will be, if that is told."""

    ticket_id: str
    engine: EngineRef | None = None


@dataclass(frozen=True, slots=True)
class ById:
    """One lease."""

    lease_id: str


Target: TypeAlias = Branch | Prefill | ById


class Claimed(NamedTuple):
    """A claim, for so many seconds from when it was asked for."""

    ttl: float
    lease: Shown
    matched_tokens: int


class Pending(NamedTuple):
    """Nothing to claim yet: ask again when the topic is touched, or at that instant."""

    topic: Topic
    until: float


class ReadOutcome(enum.IntEnum):
    """How a read went. Numbers are those of the wire."""

    USED = 1
    NOT_NEEDED = 2
    FAILED = 3
    LATE = 4
    ABORTED = 5


def claim(ledger: Ledger, credential: Credential, claim_id: str, target: Target, *, waits: bool) -> Claimed | Pending:
    """Claims a lease, or renews the claim that an earlier attempt got. Pending only if the caller still `waits`."""
    reader = ledger.session(credential).engine.ref
    known = ledger.claims.get(claim_id)
    if known is not None:
        if (known.reader, known.target) != (reader, target):
            raise IdTaken("claim", claim_id)
        if known.lease.state is not State.FREED:
            return Claimed(_extend(ledger, known), show(known.lease, ledger.now), known.matched_tokens)
        _drop(ledger, known)  # its owner is gone, and the first answer never arrived
    found = _find(ledger, target, waits=waits)
    if isinstance(found, Pending):
        return found
    lease, matched = found
    made = Claim(claim_id, reader, target, lease, ledger.now, matched)
    made.ends_at = _longest(ledger, lease)
    _hold(ledger, made)
    return Claimed(made.ends_at - ledger.now, show(lease, ledger.now), matched)


def renew_claim(ledger: Ledger, credential: Credential, claim_id: str) -> float:
    """Gives a live claim more time, as far as the owner's promise reaches; returns what remains. Raises ClaimLost."""
    reader = ledger.session(credential).engine.ref
    known = ledger.claims.get(claim_id)
    if known is None or known.reader != reader or known.lease.state is State.FREED:
        raise ClaimLost(claim_id)
    return _extend(ledger, known)


def finish_claim(ledger: Ledger, credential: Credential, claim_id: str) -> str | None:
    """Ends a claim; an unknown one is ended. A PREFILL lease has served then: after a failed read decode computes."""
    reader = ledger.session(credential).engine.ref
    known = ledger.claims.get(claim_id)
    if known is None or known.reader != reader:
        return None
    lease_id = known.lease.lease_id
    _drop(ledger, known)
    if known.lease.kind is Kind.PREFILL:
        life.retire(ledger, known.lease, Reason.READ)
    return lease_id


def _find(ledger: Ledger, target: Target, *, waits: bool) -> tuple[Lease, int] | Pending:
    match target:
        case Branch():
            return _branch(ledger, target, waits=waits)
        case Prefill():
            return _prefill(ledger, target, waits=waits)
        case ById():
            lease = ledger.leases.get(target.lease_id)
            if lease is None or lease.state is not State.LIVE:
                raise LeaseNotFound(target.lease_id)
            return _promised(ledger, [(lease, 0)])[0]


def _branch(ledger: Ledger, target: Branch, *, waits: bool) -> tuple[Lease, int] | Pending:
    """The branch with the longest match, the newest of equals; waits for a grant that is due."""
    ledger.value.came(target.conversation, ledger.now)
    conversation_id = target.conversation.conversation_id
    due = ledger.conversations.due_until(target.conversation, ledger.now) if waits else None
    if due is not None:
        return Pending(("conversation", target.conversation), due)
    claimable = [x for x in ledger.conversations.live(target.conversation) if x.owner.open]
    if not claimable:
        raise NoLease(conversation_id)
    matching = [(x, matched) for x in claimable if (matched := x.chain.matched(target.prompt))]
    if not matching:
        raise NoMatch(conversation_id)
    best, matched = max(_promised(ledger, matching), key=lambda x: (x[1], x[0].generation))
    if not best.returned:
        best.returned = True
        ledger.value.observed(best.stop_reason, ledger.now - best.granted_at, came=True)
    return best, matched


def _prefill(ledger: Ledger, target: Prefill, *, waits: bool) -> tuple[Lease, int] | Pending:
    """The turn's PREFILL lease, once it is there; one that was there and is out of use will not come back."""
    turn = ledger.turns.get(target.ticket_id)
    lease = ledger.leases.get(turn.prefill) if turn else None
    if lease and lease.state is State.LIVE and lease.owner.open:
        return _promised(ledger, [(lease, 0)])[0]
    gone = turn and turn.prefill and (lease is None or lease.state is not State.LIVE)
    if (turn and (gone or not turn.takes_prefill)) or _lost(ledger, target.engine):
        raise PrefillFailed(target.ticket_id)
    if not waits:
        raise PrefillPending(target.ticket_id)
    look_again = ledger.now + ledger.rules.timing.claim  # its engine may be lost by then
    return Pending(("turn", target.ticket_id), look_again)


def _lost(ledger: Ledger, engine: EngineRef | None) -> bool:
    """Whether that start of an engine has a successor, or was silent for `hold`: it grants nothing any more."""
    if engine is None:
        return False
    known = ledger.engines.get(engine.engine_id)
    return known[-1].engine.ref != engine if known else ledger.now >= ledger.rejoin_until


def _longest(ledger: Ledger, lease: Lease) -> float:
    """Until when a claim on the lease may last now."""
    return min(ledger.now + ledger.rules.timing.claim, ledger.promised_until(lease.owner))


def _promised(ledger: Ledger, leases: Sequence[tuple[Lease, int]]) -> Sequence[tuple[Lease, int]]:
    """Those whose owners' promise reaches far enough for a useful claim. Raises PromiseTooShort if there are none."""
    least = ledger.now + ledger.rules.timing.least_claim
    found = [x for x in leases if x[0].owner.open and _longest(ledger, x[0]) >= least]
    if not found:
        raise PromiseTooShort(leases[0][0].engine.engine_id)
    return found


def _extend(ledger: Ledger, known: Claim) -> float:
    known.ends_at = max(known.ends_at, _longest(ledger, known.lease))
    known.lease.used_at = ledger.now
    return known.ends_at - ledger.now


def _hold(ledger: Ledger, made: Claim) -> None:
    ledger.claims[made.claim_id] = made
    made.lease.used_at = ledger.now
    made.lease.owner.claimed(made.lease)
    ledger.timers.at(made.ends_at, _lapse, made.claim_id)
    ledger.tell(Event.CLAIMED, made.lease)


def _drop(ledger: Ledger, claim: Claim) -> None:
    del ledger.claims[claim.claim_id]
    claim.lease.owner.unclaimed(claim.lease)
    if claim.lease.state is State.FREED:
        ledger.leases.unclaimed(claim.lease)
        return
    ledger.tell(Event.CLAIM_ENDED, claim.lease)
    life.settle(ledger, claim.lease)


def _lapse(ledger: Ledger, claim_id: str) -> None:
    claim = ledger.claims.get(claim_id)
    if claim is None:
        return
    if claim.ends_at > ledger.now:
        ledger.timers.at(claim.ends_at, _lapse, claim_id)
    else:
        _drop(ledger, claim)
