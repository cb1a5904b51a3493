"""A fleet's control plane as an event-driven model: every process is one core that serves calls in their order.

A turn's calls are those of gateway and connectors, in their order and with the same things waiting for one another.
Engines and clients cost nothing here: the question is how far routers, registries and their store reach.
"""

import heapq
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.fleet.costs import Costs
from benchmarks.sample import percentile

HEARTBEAT = 1.0  # seconds between two of an engine
PREFILL, DECODE = 0.3, 6.0  # seconds of an engine's work in a turn
BUDGET = 0.05  # seconds that the control plane may add to a turn; past it the turn goes without reuse
NETWORK = 0.0002  # seconds of each way between two hosts


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is served, and by how many."""

    engines: int
    conversations: int
    turns: float
    """Per second."""
    replicas: int
    """Of router and registry each."""
    shared: bool
    """The registries share a store, which they must as soon as there are two."""


@dataclass(slots=True)
class Core:
    """One process on one core: first come, first served."""

    free_at: float = 0.0
    worked: float = 0.0

    def serve(self, now: float, cost: float) -> float:
        """Takes a call; returns when it is done."""
        self.free_at = max(self.free_at, now) + cost
        self.worked += cost
        return self.free_at

    def busy(self, seconds: float) -> float:
        """The share of that time in which it worked; what still waits then does not count."""
        return min(1.0, self.worked / seconds)


@dataclass(slots=True)
class Outcome:
    """What a run showed. Seconds, and shares of a core."""

    routed: list[float] = field(default_factory=list)
    """What Route took."""
    waits: list[float] = field(default_factory=list)
    """What a turn waited for the control plane before its first token, in all."""
    router: float = 0.0
    registry: float = 0.0
    store: float = 0.0

    @property
    def late(self) -> float:
        """The share of turns past the budget, which were served without reuse."""
        return sum(wait > BUDGET for wait in self.waits) / len(self.waits)

    @property
    def p99(self) -> float:
        return percentile(self.waits, 0.99)


Step = tuple[Core | None, float]
"""A call, and what it costs a core; without one, seconds that pass."""
Steps = Iterator[Step]


class Model:
    """One run."""

    def __init__(self, fleet: Fleet, costs: Costs, *, seed: int = 1) -> None:
        self._fleet, self._costs = fleet, costs
        self._random = random.Random(seed)  # noqa: S311 - the same in every run
        self._events: list[tuple[float, int, Steps, Core | None, float]] = []
        self._count = itertools.count()
        self._now = 0.0
        self._routers = [Core() for _ in range(fleet.replicas)]
        self._registries = [Core() for _ in range(fleet.replicas)]
        self._store = Core()
        self._outcome = Outcome()

    def run(self, seconds: float) -> Outcome:
        """Lets so much time pass."""
        for i in range(self._fleet.engines):
            self._go_on(i / self._fleet.engines * HEARTBEAT, self._heartbeats())
        self._go_on(0.0, self._arrivals())
        while self._events and self._events[0][0] < seconds:
            self._now, _, steps, core, cost = heapq.heappop(self._events)
            if core is None:
                self._go_on(self._now, steps)
            else:
                self._push(core.serve(self._now, cost) + NETWORK, steps, None, 0.0)
        outcome, count = self._outcome, self._fleet.replicas
        outcome.router = sum(core.busy(seconds) for core in self._routers) / count
        outcome.registry = sum(core.busy(seconds) for core in self._registries) / count
        outcome.store = self._store.busy(seconds)
        return outcome

    def _arrivals(self) -> Steps:
        while True:
            yield None, self._random.expovariate(self._fleet.turns)
            self._go_on(self._now, self._turn())

    def _turn(self) -> Steps:
        """Gateway, prefill and decode, in the order in which one waits for the other."""
        begun, costs = self._now, self._costs
        router = self._random.choice(self._routers)
        yield router, costs.route / 2
        yield from self._registry(costs.locate)
        yield router, costs.route / 2
        self._outcome.routed.append(self._now - begun)
        self._aside(self._router(costs.resolve))  # prefill's ticket, while it claims the history
        yield from self._registry(costs.claim)
        self._outcome.waits.append(self._now - begun)
        yield None, PREFILL
        self._aside(self._registry(costs.claim))  # given back
        self._aside(self._router(costs.resolve))  # prefill's end
        self._aside(self._router(costs.resolve))  # decode's ticket
        yield from self._registry(costs.grant)
        yield from self._registry(costs.claim)
        self._aside(self._registry(costs.claim))
        yield None, DECODE
        self._aside(self._registry(costs.grant))
        yield from self._router(costs.resolve)  # the turn's end, of which the router tells the registry
        yield from self._registry(costs.claim)

    def _heartbeats(self) -> Steps:
        while True:
            yield None, HEARTBEAT
            self._aside(self._registry(self._costs.heartbeat))

    def _router(self, cost: float) -> Steps:
        yield self._random.choice(self._routers), cost

    def _registry(self, cost: float) -> Steps:
        """A call of a registry, which asks the store where there is one."""
        yield self._random.choice(self._registries), cost
        if self._fleet.shared:
            yield self._store, self._costs.store

    def _aside(self, steps: Steps) -> None:
        """Lets something happen that nobody waits for."""
        self._go_on(self._now, steps)

    def _go_on(self, now: float, steps: Steps) -> None:
        step = next(steps, None)
        if step is not None:
            core, amount = step
            self._push(now + (NETWORK if core else amount), steps, core, amount)

    def _push(self, when: float, steps: Steps, core: Core | None, cost: float) -> None:
        heapq.heappush(self._events, (when, next(self._count), steps, core, cost))
