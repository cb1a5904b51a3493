"""What the registry knows, for Prometheus. Engines are labels, what clients choose is not."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

import structlog
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kvlease.registry.errors import StoreUnreachable, WatcherTooSlow
from kvlease.registry.lists import EngineShown
from kvlease.registry.store import Store
from kvlease.registry.tally import Tally

_AGAIN = 1.0
"""Seconds after which a watch that broke off begins anew."""
_RECLAIM_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 12, 30)

log = structlog.get_logger()


class Metrics(Collector):
    """Follows a store. What is scraped, on another thread, is what was seen last."""

    def __init__(self, store: Store, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._tally = Tally()
        self._families: Sequence[Metric] = ()
        self._reclaim = Histogram(
            "kvlease_registry_reclaim_seconds",
            "From the end of a lease to its blocks being free.",
            buckets=_RECLAIM_BUCKETS,
            registry=registry,
        )
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Gives what was seen last."""
        return self._families

    async def follow(self) -> None:
        """Counts what happens. Runs until cancelled; what happens while the store cannot be heard is not counted."""
        while True:
            self._tally.begin(self._clock())
            try:
                async for happened in self._store.follow():
                    self._tally.take(happened, self._clock())
            except (StoreUnreachable, WatcherTooSlow) as error:
                log.warning("events were not counted", error=str(error))
                await asyncio.sleep(_AGAIN)

    async def look(self) -> None:
        """Brings up to date what is scraped."""
        try:
            engines = await self._store.engines("", include_lost=True)
        except StoreUnreachable:
            engines = []
        for seconds in self._tally.take_reclaims():
            self._reclaim.observe(seconds)
        self._families = (*_of_engines(engines), *_of_leases(self._tally, self._clock()))


def _of_engines(engines: Sequence[EngineShown]) -> Iterator[Metric]:
    for name, text, value in (
        ("engine_healthy", "Whether it takes new turns.", lambda x: float(x.healthy)),
        ("engine_leases", "Leases that it holds.", lambda x: x.leases),
        ("engine_leased_blocks", "KV blocks that leases keep.", lambda x: x.leased_blocks),
        ("engine_claimed_blocks", "KV blocks that are being read.", lambda x: x.claimed_blocks),
        ("engine_budget_blocks", "KV blocks that leases may keep.", lambda x: x.budget),
        ("engine_blocks", "KV blocks of its pool.", lambda x: x.engine.total_blocks),
    ):
        gauge = GaugeMetricFamily(f"kvlease_registry_{name}", text, labels=["engine"])
        for engine in engines:
            gauge.add_metric([engine.engine.ref.engine_id], value(engine))
        yield gauge


def _of_leases(tally: Tally, now: float) -> Iterator[Metric]:
    leases = GaugeMetricFamily("kvlease_registry_leases", "Leases, by kind and state.", labels=["kind", "state"])
    for (kind, state), count in tally.states.items():
        leases.add_metric([kind.name.lower(), state], count)
    yield leases
    yield _counter("granted", "Leases granted.", ["kind"], (([k.name], n) for k, n in tally.granted.items()))
    retired = (([kind.name, reason.name], n) for (kind, reason), n in tally.retired.items())
    yield _counter("retired", "Leases that take no more claims, by why.", ["kind", "reason"], retired)
    yield _counter("renewals", "Renewals.", [], [([], tally.renewals)])
    yield _counter("claims", "Claims given.", [], [([], tally.claims)])
    pinned = "Tokens of conversations times the seconds that leases kept their KV."
    yield _counter("pinned_token_seconds", pinned, [], [([], tally.pinned(now))])
    wasted = "Of those, of leases that were freed and never read."
    yield _counter("wasted_token_seconds", wasted, [], [([], tally.wasted)])


def _counter(name: str, text: str, labels: Sequence[str], counted: Iterable[tuple[Sequence[str], float]]) -> Metric:
    family = CounterMetricFamily(f"kvlease_registry_{name}", text, labels=labels)
    for values, count in counted:
        family.add_metric([value.lower() for value in values], count)
    return family
