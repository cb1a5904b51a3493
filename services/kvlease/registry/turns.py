"""Ends of turns: what routers and decode tell, so that nobody waits for what will not come, and waits for what will."""

import enum
from typing import NamedTuple

from kvlease.registry import life, renewals
from kvlease.registry.lease import Conversation, EngineRef, Reason, StopReason
from kvlease.registry.ledger import Ledger
from kvlease.registry.turn import Turn


class TurnOutcome(enum.IntEnum):
    """How a turn ended. Numbers are those of the wire."""

    COMPLETED = 1
    PREFILL_FAILED = 2
    CANCELLED = 3
    NOTHING_KEPT = 4


class TurnEnd(NamedTuple):
    """The end of a turn, or of its prefill."""

    ticket_id: str
    conversation: Conversation
    outcome: TurnOutcome
    stop_reason: StopReason = StopReason.UNKNOWN
    decode: EngineRef | None = None


def end_turn(ledger: Ledger, end: TurnEnd) -> bytes | None:
    """Takes note of it; returns how prefill came by its KV, if that was told.

    The turn's PREFILL lease is needed no more, unless decode tells only that it kept nothing: another answer of the
    turn may still read. DECODE leases that were granted before a turn was cancelled stay: their KV is good, and what
    they superseded is gone.
    """
    turn = ledger.turn(end.ticket_id)
    match end.outcome:
        case TurnOutcome.NOTHING_KEPT:
            turn.nothing_kept = True
            ledger.not_due(end.conversation, end.ticket_id)
            ledger.touched.append(("turn", end.ticket_id))
            return turn.report
        case TurnOutcome.COMPLETED:
            _complete(ledger, turn, end)
        case TurnOutcome.PREFILL_FAILED:
            turn.prefill_failed = True
        case TurnOutcome.CANCELLED:
            turn.cancelled = True
            ledger.not_due(end.conversation, end.ticket_id)
    if end.outcome is not TurnOutcome.PREFILL_FAILED:
        ledger.forget_turn_in(end.ticket_id, ledger.rules.tombstone)
    ledger.touched.append(("turn", end.ticket_id))
    if prefill := ledger.leases.get(turn.prefill):
        life.retire(ledger, prefill, Reason.READ if turn.completed else Reason.ENDED)
    return turn.report


def _complete(ledger: Ledger, turn: Turn, end: TurnEnd) -> None:
    """Sets the ttl of the turn's leases, or marks the grant as due if it has not come."""
    if turn.completed:
        return
    turn.completed = True
    turn.stop_reason = end.stop_reason or turn.stop_reason
    for lease in filter(None, map(ledger.leases.get, turn.decode)):
        renewals.reconsider(ledger, lease, turn.stop_reason or lease.stop_reason)
    if end.conversation.conversation_id and end.decode and not (turn.decode or turn.nothing_kept):
        _mark_due(ledger, end, end.decode)


def _mark_due(ledger: Ledger, end: TurnEnd, decode: EngineRef) -> None:
    """Lets claims wait for the grant, unless its engine is gone."""
    known = ledger.engines.get(decode.engine_id, ())
    if any(session.open and session.engine.ref == decode for session in known):
        ledger.conversations.mark_due(end.conversation, end.ticket_id, ledger.now + ledger.rules.grant_due)
        ledger.forget_in_time(end.conversation)
