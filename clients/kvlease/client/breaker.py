"""Stops calling a peer that does not answer, so that not every request pays the wait for it."""

from collections.abc import Callable

TRIP_AFTER = 3  # failures in a row: one slow answer is no outage
PAUSE = 0.5  # seconds between two trials of a peer that does not answer


class Breaker:
    """Lets every call pass while the peer answers; after failures in a row, one call per pause, as a trial."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._next_trial = 0.0

    @property
    def tripped(self) -> bool:
        return self._failures >= TRIP_AFTER

    def allows(self) -> bool:
        """Tells whether the caller may call. It must report how it went."""
        if not self.tripped:
            return True
        now = self._clock()
        if now < self._next_trial:
            return False
        self._next_trial = now + PAUSE
        return True

    def succeeded(self) -> None:
        """Counts a call that was answered, be it with a refusal."""
        self._failures = 0

    def failed(self) -> None:
        """Counts a call that was not answered."""
        self._failures += 1
        self._next_trial = self._clock() + PAUSE
