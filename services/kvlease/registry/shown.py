"""What operations give away: values that stay as they are, with durations in place of instants."""

from typing import NamedTuple

from kvlease.registry.lease import Reason, State, StopReason, Terms
from kvlease.registry.leases import Lease


class Shown(NamedTuple):
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
        lease.terms,
        lease.seq,
        lease.generation,
        lease.stop_reason,
        lease.state if state is None else state,
        lease.reason if reason is None else reason,
        lease.remaining(now),
        now - lease.granted_at,
        now - lease.used_at,
        lease.claims,
    )
