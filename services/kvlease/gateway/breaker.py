"""Stops asking what does not answer, so that not every request pays the wait."""

from collections.abc import Callable


class Breaker:
    """Opens after some failures in a row; then lets one call through per rest, until one succeeds."""

    def __init__(self, *, failures: int = 3, rest: float = 1.0, clock: Callable[[], float]) -> None:
        """Opens after so many *failures*; *rest* is in seconds."""
        self._limit = failures
        self._rest = rest
        self._clock = clock
        self._failures = 0
        self._next_try = 0.0

    def allows(self) -> bool:
        """Tells whether to make a call now."""
        if self._failures < self._limit:
            return True
        now = self._clock()
        if now < self._next_try:
            return False
        self._next_try = now + self._rest
        return True

    def succeeded(self) -> None:
        """Counts a call that was answered, be it with a refusal."""
        self._failures = 0

    def failed(self) -> None:
        """Counts a call that was not answered."""
        self._failures += 1
        self._next_try = self._clock() + self._rest
