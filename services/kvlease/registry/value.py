"""What a lease is worth when some must go: pure functions of the lease and of what was seen before."""

from collections import defaultdict
from math import log2
from typing import Protocol

from kvlease.registry.lease import Lease, StopReason

BUCKETS = 32


class Value(Protocol):
    """A policy. The lease of least value goes first."""

    def worth(self, lease: Lease, now: float) -> float:
        """The lease's value; only comparisons matter."""

    def returned(self, stop_reason: StopReason, gap: float) -> None:
        """Learns that a next turn came so many seconds after the lease was granted."""

    def lapsed(self, stop_reason: StopReason, gap: float) -> None:
        """Learns that no turn came within so many seconds."""


class LeastRecentlyRenewed:
    """Lets the lease go that nobody has renewed for longest."""

    def worth(self, lease: Lease, now: float) -> float:  # noqa: ARG002 - others need it
        return lease.renewed_at

    def returned(self, stop_reason: StopReason, gap: float) -> None:
        """Needs no history."""

    def lapsed(self, stop_reason: StopReason, gap: float) -> None:
        """Needs no history."""


class LikelyReturn:
    """Weighs tokens kept per block against the chance that the next turn still comes.

    The chance is learned from gaps seen so far, by stop reason: of the turns that had not come after as long as this
    lease has waited, the share that came later. Gaps are counted in buckets that double.
    """

    def __init__(self) -> None:
        self._returns: defaultdict[StopReason, list[int]] = defaultdict(lambda: [0] * BUCKETS)
        self._lapses: defaultdict[StopReason, list[int]] = defaultdict(lambda: [0] * BUCKETS)

    def worth(self, lease: Lease, now: float) -> float:
        handle = lease.terms.handle
        return self.chance(lease.stop_reason, now - lease.granted_at) * handle.chain.tokens / max(1, handle.block_count)

    def chance(self, stop_reason: StopReason, waited: float) -> float:
        """The share of turns that came after having waited so long; one half before anything was seen."""
        later = _bucket(waited)
        came = sum(self._returns[stop_reason][later:])
        never = sum(self._lapses[stop_reason][later:])
        return (came + 1) / (came + never + 2)

    def returned(self, stop_reason: StopReason, gap: float) -> None:
        self._returns[stop_reason][_bucket(gap)] += 1

    def lapsed(self, stop_reason: StopReason, gap: float) -> None:
        self._lapses[stop_reason][_bucket(gap)] += 1


def _bucket(seconds: float) -> int:
    """0 up to a second, then one more with every doubling."""
    return min(BUCKETS - 1, max(0, int(log2(max(seconds, 0.5))) + 1))
