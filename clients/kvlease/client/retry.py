"""Whether a failed call is made again, and when. Pure: time and chance are handed in.

Every call of this library is idempotent. One is repeated only if nobody answered, or if the server that answered was
stopping or without its store: then another one, or the same one a little later, may serve it. What a server has decided
stands.
"""

import random
import time
from collections.abc import Callable

from kvlease.client import arguments
from kvlease.client.errors import Draining, KvleaseError, StoreUnreachable, Unavailable

TIMEOUT = 5.0
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
FIRST_CONTACT = 1.0  # seconds after which an address where nobody has ever answered is taken for a wrong one


class Attempts:
    """The attempts of one call, within one time limit for all of them."""

    def __init__(
        self,
        timeout: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Starts the time: *timeout* in seconds on *clock*; *chance* gives numbers in [0, 1)."""
        self._clock = clock
        self._chance = chance
        self._start = clock()
        self._end = self._start + arguments.seconds("timeout", timeout)
        self._failures = 0

    def left(self) -> float:
        """Gives the seconds that the next attempt may take."""
        return max(0.0, self._end - self._clock())

    def pause(self, error: KvleaseError) -> float | None:
        """Gives the seconds to wait before the next attempt; None if the error is to be raised."""
        if type(error) not in (Unavailable, Draining, StoreUnreachable):
            return None
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
        self._failures += 1
        pause = error.retry_after or longest * (0.5 + self._chance() / 2)
        wrong = isinstance(error, Unavailable) and error.never_answered
        left = min(self.left(), self._start + FIRST_CONTACT - self._clock()) if wrong else self.left()
        return pause if pause < left else None
