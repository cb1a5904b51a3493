"""What a lease is worth when some must go: pure functions of the lease and of what was seen before."""

from collections import defaultdict
from math import log2
from typing import Protocol

from kvlease.registry.lease import Conversation, StopReason
from kvlease.registry.leases import Lease

BUCKETS = 32


class Value(Protocol):
    """A policy. The lease of least value goes first."""

    def worth(self, lease: Lease, now: float) -> float:
        """The lease's value; only comparisons matter."""

    def life(self, lease: Lease) -> float | None:
        """How long the lease should live from its grant on, in seconds; None: as the rules say."""

    def granted(self, lease: Lease) -> None:
        """Learns that a turn ended with this lease; told again when its stop reason becomes known later."""

    def came(self, conversation: Conversation, now: float) -> None:
        """Learns that a next turn of a conversation began; told as often as it shows."""

    def ended(self, conversation: Conversation) -> None:
        """Learns that a conversation was ended: nothing is to be learned from no next turn."""

    def observed(self, stop_reason: StopReason, gap: float, *, came: bool) -> None:
        """Learns that the next turn came so long after a lease was granted, or none while the lease was live."""


class Unlearned:
    """Part of a policy that needs no history."""

    def life(self, lease: Lease) -> float | None:
        """As the rules say."""

    def granted(self, lease: Lease) -> None:
        """Nothing to learn."""

    def came(self, conversation: Conversation, now: float) -> None:
        """Nothing to learn."""

    def ended(self, conversation: Conversation) -> None:
        """Nothing to learn."""

    def observed(self, stop_reason: StopReason, gap: float, *, came: bool) -> None:
        """Nothing to learn."""


class LeastRecentlyRenewed(Unlearned):
    """Lets the lease go that nobody has renewed for longest."""

    def worth(self, lease: Lease, now: float) -> float:  # noqa: ARG002 - others need it
        return lease.renewed_at


class LikelyReturn(Unlearned):
    """Weighs tokens kept per block against the chance that the next turn still comes.

    The chance is learned from gaps seen so far, by stop reason: of the turns that had not come after as long as this
    lease has waited, the share that came later. Gaps are counted in buckets that double.
    """

    def __init__(self) -> None:
        self._returns: defaultdict[StopReason, list[int]] = defaultdict(lambda: [0] * BUCKETS)
        self._lapses: defaultdict[StopReason, list[int]] = defaultdict(lambda: [0] * BUCKETS)

    def worth(self, lease: Lease, now: float) -> float:
        return self.chance(lease.stop_reason, now - lease.granted_at) * lease.tokens / max(1, lease.blocks)

    def chance(self, stop_reason: StopReason, waited: float) -> float:
        """The share of turns that came after having waited so long; one half before anything was seen."""
        later = _bucket(waited)
        came = sum(self._returns[stop_reason][later:])
        never = sum(self._lapses[stop_reason][later:])
        return (came + 1) / (came + never + 2)

    def observed(self, stop_reason: StopReason, gap: float, *, came: bool) -> None:
        (self._returns if came else self._lapses)[stop_reason][_bucket(gap)] += 1


def _bucket(seconds: float) -> int:
    """0 up to a second, then one more with every doubling."""
    return min(BUCKETS - 1, max(0, int(log2(max(seconds, 0.5))) + 1))
