"""Processes that announce themselves by one id, by mistake: each displaces the other, again and again.

It shows when a start of an engine comes back that another one has displaced: after a restart that never happens. Told
of calls to this process alone, whatever the store.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog

from kvlease.registry.lease import EngineRef

MOST = 1024
"""Engine ids that are remembered, those that opened a session last."""
STARTS = 8
"""Displaced starts of an engine that are remembered."""
LASTS = 30.0
"""Seconds for which a return is told."""
EVERY = 10.0
"""Seconds between two warnings for one id."""

log = structlog.get_logger()


class Start(NamedTuple):
    """A start of an engine, and where it said that it serves."""

    incarnation: str
    url: str


@dataclass(slots=True)
class _Known:
    newest: Start
    displaced: "OrderedDict[str, None]" = field(default_factory=OrderedDict)
    rival: str = ""
    seen_at: float = 0.0
    warn_at: float = 0.0


class Rivals:
    """Who displaced whom."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def opened(self, ref: EngineRef, url: str) -> None:
        """Takes note of a session that was opened, and warns of a start that came back."""
        start = Start(ref.incarnation, url)
        known = self._known.setdefault(ref.engine_id, _Known(start))
        self._known.move_to_end(ref.engine_id)
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        before, known.newest = known.newest, start
        if before.incarnation == start.incarnation:
            return
        known.displaced[before.incarnation] = None
        if start.incarnation in known.displaced:
            self._came_back(ref.engine_id, known, before)
        if len(known.displaced) > STARTS:
            known.displaced.popitem(last=False)

    def of(self, engine_id: str) -> str:
        """Where another process of that id says it serves; empty if none was seen lately."""
        known = self._known.get(engine_id)
        return known.rival if known and self._clock() < known.seen_at + LASTS else ""

    def _came_back(self, engine_id: str, known: _Known, before: Start) -> None:
        now = self._clock()
        known.rival, known.seen_at = before.url, now
        if now >= known.warn_at:
            known.warn_at = now + EVERY
            urls = (known.newest.url, before.url)
            log.warning("two engines announce themselves by one id", engine=engine_id, urls=urls)
