"""The policies that are compared."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from benchmarks.replay.pin import PIN, pin
from benchmarks.replay.registry import Replay
from benchmarks.replay.tally import Tally
from benchmarks.replay.traffic import Traffic
from kvlease.registry.expectation import ExpectedReturn
from kvlease.registry.leases import Lease
from kvlease.registry.value import LeastRecentlyRenewed, LikelyReturn, Unlearned, Value

REFUSE, RECENT, RETURN, HABITS, ORACLE = "pin and refuse", "recent", "return", "habits", "oracle"
LONGEST = 3600.0
"""Seconds that a lease lives where only memory limits it."""


class Oracle(Unlearned):
    """Knows when each next turn comes; the lease goes first that is needed last."""

    def __init__(self, traffic: Traffic) -> None:
        """Looks ahead."""
        self._next = {f"{x.part}.{x.turn - 1}": x.at for x in traffic.happenings if not x.ends}

    def worth(self, lease: Lease, now: float) -> float:  # noqa: ARG002 - others need it
        return -self._next.get(lease.lease_id, float("inf"))


POLICIES: Mapping[str, tuple[Callable[[Traffic], Value], float]] = MappingProxyType(
    {
        RECENT: (lambda _: LeastRecentlyRenewed(), PIN),
        RETURN: (lambda _: LikelyReturn(), LONGEST),
        HABITS: (lambda _: ExpectedReturn(), LONGEST),
        ORACLE: (Oracle, LONGEST),
    }
)
"""Each with how long its leases live."""


def within(policy: str, traffic: Traffic, budget: float, *, end: bool = False) -> Tally:
    """Replays with so many tokens for leases."""
    if policy == REFUSE:
        return pin(traffic, budget=budget, end=end)
    made, ttl = POLICIES[policy]
    return Replay(traffic, made(traffic), budget=budget, ttl=ttl, end=end).play()


def patient(traffic: Traffic, patience: float, *, end: bool = False) -> Tally:
    """Replays with room enough and learned lives."""
    return Replay(traffic, ExpectedReturn(patience=patience), budget=float(1 << 60), ttl=PIN, end=end).play()
