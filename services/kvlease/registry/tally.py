"""What becomes of leases, counted as it happens: for metrics."""

from collections import Counter
from dataclasses import dataclass

from kvlease.registry.change import Event
from kvlease.registry.feed import Happened
from kvlease.registry.lease import Kind, Reason
from kvlease.registry.shown import Shown


@dataclass(slots=True)
class _Kept:
    kind: Kind
    tokens: int
    since: float
    claims: int = 0
    read: bool = False
    retired_at: float | None = None


class Tally:
    """Follows the events of a watch. Instants are the caller's; token-seconds are of DECODE leases."""

    def __init__(self) -> None:
        self.granted: Counter[Kind] = Counter()
        self.retired: Counter[tuple[Kind, Reason]] = Counter()
        self.renewals = 0
        self.claims = 0
        self.wasted = 0.0
        """Token-seconds of leases that were freed and never read."""
        self.states: Counter[tuple[Kind, str]] = Counter()
        """Leases by kind and "live", "claimed" or "retiring"; counted as they change, since there may be a million."""
        self._reclaims: list[float] = []
        self._kept: dict[str, _Kept] = {}
        self._pinned = 0.0
        self._tokens = 0
        self._until = 0.0

    def begin(self, now: float) -> None:
        """Forgets what is kept: a watch begins, and what it tells is of leases that it saw granted."""
        self.pinned(now)
        self._kept.clear()
        self.states.clear()
        self._tokens = 0

    def take_reclaims(self) -> list[float]:
        """Returns the seconds from the end of each lease to its blocks being free, since the last call."""
        taken, self._reclaims = self._reclaims, []
        return taken

    def take(self, happened: Happened, now: float) -> None:
        """Counts an event."""
        lease = happened.lease
        if lease is None:
            return
        match happened.event:
            case Event.GRANTED:
                self._grant(lease, now)
            case Event.RENEWED:
                self.renewals += 1
            case Event.CLAIMED:
                self.claims += 1
                self._claim(lease)
            case Event.CLAIM_ENDED:
                self._claim(lease)
            case Event.RETIRED:
                self._retire(lease, now)
            case Event.FREED:
                self._free(lease, now)

    def pinned(self, now: float) -> float:
        """Returns the token-seconds that leases have kept, those that still live included."""
        self._pinned += self._tokens * (now - self._until)
        self._until = now
        return self._pinned

    def _grant(self, lease: Shown, now: float) -> None:
        terms = lease.terms
        if terms.lease_id in self._kept:
            return
        self.granted[terms.kind] += 1
        kept = self._kept[terms.lease_id] = _Kept(terms.kind, terms.handle.chain.tokens, since=now)
        self.states[_state(kept)] += 1
        self._pin(kept, now, kept.tokens)

    def _claim(self, lease: Shown) -> None:
        if kept := self._kept.get(lease.terms.lease_id):
            self.states[_state(kept)] -= 1
            kept.claims = lease.claims
            kept.read = True
            self.states[_state(kept)] += 1

    def _retire(self, lease: Shown, now: float) -> None:
        self.retired[lease.terms.kind, lease.reason] += 1
        if kept := self._kept.get(lease.terms.lease_id):
            self.states[_state(kept)] -= 1
            kept.retired_at = now
            self.states[_state(kept)] += 1

    def _free(self, lease: Shown, now: float) -> None:
        kept = self._kept.pop(lease.terms.lease_id, None)
        if kept is None:
            return
        self.states[_state(kept)] -= 1
        self._pin(kept, now, -kept.tokens)
        if kept.kind is Kind.DECODE and not kept.read:
            self.wasted += kept.tokens * (now - kept.since)
        if kept.retired_at is not None:
            self._reclaims.append(now - kept.retired_at)

    def _pin(self, kept: _Kept, now: float, tokens: int) -> None:
        self.pinned(now)
        if kept.kind is Kind.DECODE:
            self._tokens += tokens


def _state(kept: _Kept) -> tuple[Kind, str]:
    if kept.retired_at is not None:
        return kept.kind, "retiring"
    return kept.kind, "claimed" if kept.claims else "live"
