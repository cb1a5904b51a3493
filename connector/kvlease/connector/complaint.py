"""What is said of what goes wrong: at once, then how often it went on, for a warning each time would fill the log."""

import traceback
from typing import Any

import structlog

from kvlease.connector.clock import Clock

EVERY = 10.0  # seconds

log = structlog.get_logger()


class Complaint:
    """One thing that may go wrong again and again."""

    def __init__(self, event: str, clock: Clock) -> None:
        self._event = event
        self._clock = clock
        self._next: dict[str, float] = {}
        self._silent: dict[str, int] = {}

    def __call__(self, reason: str, **facts: Any) -> None:
        """Warns, unless it has for the same *reason* in the last `EVERY` seconds; tells how often it has not."""
        now = self._clock()
        if now < self._next.get(reason, now):
            self._silent[reason] = self._silent.get(reason, 0) + 1
            return
        self._next[reason] = now + EVERY
        more = self._silent.pop(reason, 0)
        log.warning(self._event, reason=reason, **facts, **({"times_before": more} if more else {}))


def fault(event: str, error: BaseException, **facts: Any) -> None:
    """Logs a fault of our own, with its traceback alone.

    Nobody sets structlog up in vLLM's process, and by default it shows what local variables hold, tokens and prompts
    among them, where rich is installed.
    """
    log.error(event, exception="".join(traceback.format_exception(error)), **facts)
