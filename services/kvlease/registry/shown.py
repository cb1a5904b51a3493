"""What operations give away: values that stay as they are, with durations in place of instants."""

from dataclasses import dataclass

from kvlease.registry.lease import Lease, Reason, State, StopReason, Terms


@dataclass(frozen=True, slots=True)
class Shown:
    """A lease at one moment. Lengths are seconds, counted from that moment."""

    terms: Terms
    seq: int
    generation: int
    stop_reason: StopReason
    state: State
    reason: Reason
    remaining: float
    age: float
    idle: float
    claims: int


def show(lease: Lease, now: float, state: State | None = None, reason: Reason | None = None) -> Shown:
    """Shows a lease as it is, or as it was in an earlier state."""
    return Shown(
        terms=lease.terms,
        seq=lease.seq,
        generation=lease.generation,
        stop_reason=lease.stop_reason,
        state=lease.state if state is None else state,
        reason=lease.reason if reason is None else reason,
        remaining=lease.remaining(now),
        age=now - lease.granted_at,
        idle=now - lease.used_at,
        claims=lease.claims,
    )
