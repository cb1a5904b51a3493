"""Requests that were routed but that their engine's heartbeats do not show yet."""

from collections import defaultdict
from collections.abc import Callable

from kvlease.router.engine import EngineKey
from kvlease.router.fleet import Fleet
from kvlease.router.ticket import Terms

ARRIVAL = 30.0  # seconds after which a request has arrived, even if nobody here saw its ticket resolved


class Dispatched:
    """Counts the legs on their way to each engine.

    A leg counts from its routing until a heartbeat is younger than its arrival, or until its turn ends. It arrives
    when its engine resolves the ticket here; where another router did that, `ARRIVAL` stands in.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._legs: defaultdict[EngineKey, dict[str, float]] = defaultdict(dict)

    def count(self, engine: EngineKey) -> int:
        """Returns how many requests the engine's load does not show."""
        legs = self._legs.get(engine)
        return len(legs) if legs else 0

    def routed(self, terms: Terms) -> None:
        """Counts the turn at its engines from now on."""
        shown = self._clock() + ARRIVAL
        self._legs[terms.decode][terms.ticket_id] = shown
        if terms.prefill:
            self._legs[terms.prefill][terms.ticket_id] = shown

    def arrived(self, engine: EngineKey, ticket_id: str) -> None:
        """Notes that the engine has the request: its next heartbeat shows it."""
        legs = self._legs.get(engine)
        if legs and ticket_id in legs:
            legs[ticket_id] = min(legs[ticket_id], self._clock())

    def prefill_ended(self, terms: Terms) -> None:
        """Counts the turn at its prefill engine no more."""
        if terms.prefill:
            self._drop(terms.prefill, terms.ticket_id)

    def ended(self, terms: Terms) -> None:
        """Counts the turn no more."""
        self.prefill_ended(terms)
        self._drop(terms.decode, terms.ticket_id)

    def heard(self, fleet: Fleet) -> None:
        """Drops what the fleet's heartbeats show, and engines that are gone."""
        for key in list(self._legs):
            engine = fleet.engines.get(key)
            if engine is None:
                del self._legs[key]
                continue
            since = fleet.at - engine.silent
            legs = self._legs[key]
            for ticket_id in [ticket_id for ticket_id, at in legs.items() if at < since]:
                del legs[ticket_id]

    def _drop(self, engine: EngineKey, ticket_id: str) -> None:
        legs = self._legs.get(engine)
        if legs:
            legs.pop(ticket_id, None)
