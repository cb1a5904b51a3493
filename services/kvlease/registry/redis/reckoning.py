"""Whether a server's clock goes on as it did: scripts count with it, and readers with theirs."""

import math

from kvlease.registry.rules import DRIFT

SLACK = 0.02
"""Seconds. A clock that is set by less does no harm: readers are told less of their claims than that."""


class Reckoning:
    """Bounds of the difference between the server's clock and this process's: every answer lies between them."""

    def __init__(self, slack: float = SLACK) -> None:
        """Knows nothing yet. A clock that was set by up to `slack` seconds still agrees."""
        self._slack = slack
        self.begin()

    def begin(self) -> None:
        """Forgets: it is another server, or its clock is known to have been set."""
        self._low, self._high, self._at = -math.inf, math.inf, 0.0

    def agrees(self, sent: float, read: float, received: float) -> bool:
        """Takes what the server's clock was between two instants of ours; false if no steady clock could read so."""
        wider = DRIFT * max(0.0, received - self._at)
        low, high = max(self._low - wider, read - received), min(self._high + wider, read - sent)
        if low > high + self._slack:
            return False
        if received > self._at:
            self._low, self._high, self._at = min(low, high), max(low, high), received
        return True
