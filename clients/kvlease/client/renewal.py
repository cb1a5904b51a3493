"""When held conversations are renewed, and whether they are still held. Pure: no thread, no clock, no network.

A driver asks `due`, sends, and tells `answered` or `failed`. The instants are its own, on one monotonic clock.

A conversation counts as held until what the registry last promised has run out, counted from when the renewal was
*sent*: early, because the reader of `held` relies on it. Nor does it count on more than it asked for: a turn that ends
meanwhile puts a lease in place that may live shorter. It is renewed at a third of that, so that one lost renewal, and
then another, still leave time. One that is not found is asked for again: the next turn's lease may come.

Whatever speaks against a lease counts at once: that it was ended, that its engine does not answer, or that the registry
did not, three times in a row. Then it is not held until a renewal that was sent later says so.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvlease.client import arguments
from kvlease.client.types import Renewal, RenewStatus

HOLD_TTL = 60.0
SHORTEST_PAUSE = 0.1
LONGEST_CALL = 2.0
LONGEST_AHEAD = 1.0
LONGEST_INTERVAL = 15.0  # a lease that is granted meanwhile lives for a minute, unless it is renewed
UNANSWERED = 3  # renewals in a row after which no promise counts: one is lost now and then
ENGINE_LOST = 15.0  # seconds after which a registry has noticed that an engine is gone: before that it says "renewed"
LONGEST_ABSENCE = 1.0  # what is not there is asked for so often: a turn through a gateway may put it there at any time


@dataclass(slots=True, eq=False)
class Hold:
    """One conversation that somebody holds."""

    conversation_id: str
    ttl: float
    due: float
    until: float = -math.inf
    failures: int = 0
    unanswered: int = 0
    heed_after: float = -math.inf
    """Renewals that were sent before say nothing of it."""

    def __post_init__(self) -> None:
        """Refuses, as Malformed, what is no conversation, and a time that no renewal can keep."""
        arguments.conversation(self.conversation_id)
        arguments.lifetime("ttl", self.ttl)

    def remaining(self, now: float) -> float:
        """Gives the seconds for which it is held by all that is known; 0 if it is not."""
        return max(0.0, self.until - now) if self.unanswered < UNANSWERED else 0.0


class RenewalPlan:
    """All that one client holds."""

    def __init__(self, chance: Callable[[], float]) -> None:
        """Spreads renewals by *chance*, which gives numbers in [0, 1)."""
        self._chance = chance
        self._holds: set[Hold] = set()

    def __len__(self) -> int:
        """Counts the holds."""
        return len(self._holds)

    def add(self, hold: Hold) -> None:
        self._holds.add(hold)

    def remove(self, hold: Hold) -> None:
        self._holds.discard(hold)

    def clear(self) -> None:
        self._holds.clear()

    def soon(self, hold: Hold, now: float) -> None:
        """Takes that a turn of it has ended, so that a lease is due: asks at once, and then more and more seldom."""
        hold.failures, hold.due = 0, now
        hold.heed_after = min(hold.heed_after, now)

    def doubt(self, now: float, conversation_id: str | None = None, *, until: float = -math.inf) -> None:
        """Takes that a conversation's lease may be gone (None: any lease): it is not held till it is found again.

        Asks at once. What is sent before *until* will tell nothing: the registry may not know yet either.
        """
        for hold in self._holds:
            if conversation_id in (None, hold.conversation_id):
                hold.until, hold.heed_after = -math.inf, max(now, until)
                hold.failures, hold.due = 0, now

    def due(self, now: float) -> list[Hold]:
        """Gives what is to be renewed now, and with it what would be due soon: one call for many."""
        if not any(hold.due <= now for hold in self._holds):
            return []
        return [hold for hold in self._holds if hold.due <= now + min(LONGEST_AHEAD, hold.ttl / 6)]

    def wait(self, now: float) -> float | None:
        """Gives the seconds until something is due; None if nothing is held."""
        return max(0.0, min(hold.due for hold in self._holds) - now) if self._holds else None

    def answered(self, renewals: Iterable[tuple[Hold, Renewal]], sent_at: float, now: float) -> list[Hold]:
        """Takes what the registry said to the call that was sent at *sent_at*; gives the holds that were lost by it."""
        lost = []
        for hold, renewal in renewals:
            hold.unanswered = 0
            if renewal.status is RenewStatus.NOT_FOUND or sent_at < hold.heed_after:
                if hold.until > -math.inf:
                    lost.append(hold)
                hold.until = -math.inf
                self._again(hold, now, longest=min(hold.ttl / 3, LONGEST_ABSENCE))
            else:
                promised = min(renewal.remaining, hold.ttl)
                hold.until = sent_at + promised
                hold.failures = 0
                interval = min(promised / 3, LONGEST_INTERVAL) * self._spread()
                hold.due = max(now + SHORTEST_PAUSE, sent_at + interval)
        return lost

    def failed(self, holds: Iterable[Hold], now: float) -> None:
        """Takes that a call had no answer: what was promised still stands, but not when none comes again and again."""
        for hold in holds:
            hold.unanswered += 1
            self._again(hold, now, longest=call_timeout([hold]))

    def _again(self, hold: Hold, now: float, longest: float) -> None:
        pause = min(SHORTEST_PAUSE * 2 ** min(hold.failures, 16), max(SHORTEST_PAUSE, longest))
        hold.failures += 1
        hold.due = now + pause * self._spread()

    def _spread(self) -> float:
        """Gives a factor from 0.8 to 1, so that many clients do not fall into step."""
        return 1.0 - 0.2 * self._chance()


def call_timeout(holds: Iterable[Hold]) -> float:
    """Gives the seconds that one renewal call may take, so that a lost one leaves time for the next."""
    return min(LONGEST_CALL, min(hold.ttl for hold in holds) / 6)
