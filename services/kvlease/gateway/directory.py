"""The engines, as the registry last told: for lists of models, for health, and for serving without the router."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from kvlease.v1 import lease_pb2, registry_pb2, router_pb2

EngineKey: TypeAlias = tuple[str, str]
"""Engine id and incarnation."""


def key_of(engine: lease_pb2.EngineRef) -> EngineKey:
    """Returns what tells one start of an engine from all others."""
    return engine.engine_id, engine.incarnation


@dataclass(frozen=True, slots=True)
class Known:
    """An engine that takes requests."""

    endpoint: router_pb2.Endpoint
    models: frozenset[str]
    decodes: bool


class Directory:
    """Remembers engines for a while after the registry has forgotten them: one that restarts is empty at first."""

    def __init__(self, *, memory: float, clock: Callable[[], float]) -> None:
        """Keeps an engine that lists leave out for *memory* seconds, however long there was no list before."""
        self._memory = memory
        self._clock = clock
        self._known: dict[EngineKey, Known] = {}
        self._missed: dict[EngineKey, float] = {}  # which of them lists leave out, and since when
        self._in_flight: Counter[EngineKey] = Counter()

    def update(self, engines: Iterable[registry_pb2.EngineStatus]) -> set[EngineKey]:
        """Takes a new list, lost engines included. Returns engines that are gone: nothing more comes from them."""
        now = self._clock()
        listed = {key_of(status.engine.ref): status for status in engines}
        gone = {key for key, status in listed.items() if not status.healthy and not status.draining}
        started = {engine_id: incarnation for engine_id, incarnation in listed if (engine_id, incarnation) not in gone}
        gone |= {key for key in self._known if key not in listed and started.get(key[0], key[1]) != key[1]}
        fresh = {key: _known(each.engine) for key, each in listed.items() if each.healthy}
        self._missed = {key: self._missed.get(key, now) for key in self._known if key not in listed}
        remembered = {key: self._known[key] for key, since in self._missed.items() if now - since <= self._memory}
        self._known = {key: each for key, each in (remembered | fresh).items() if key not in gone}
        return gone

    @contextmanager
    def serving(self, engine: lease_pb2.EngineRef) -> Iterator[None]:
        """Counts a request at a decode engine."""
        key = key_of(engine)
        self._in_flight[key] += 1
        try:
            yield
        finally:
            self._in_flight[key] -= 1
            if not self._in_flight[key]:
                del self._in_flight[key]

    def models(self) -> list[str]:
        """Returns the names that decode engines answer to."""
        return sorted({model for known in self._known.values() if known.decodes for model in known.models})

    def decode_for(self, model: str, exclude: Collection[EngineKey] = ()) -> router_pb2.Endpoint | None:
        """Returns the decode engine for the model that has the fewest of our requests."""
        fitting = (
            known.endpoint
            for key, known in self._known.items()
            if known.decodes and model in known.models and key not in exclude
        )
        return min(fitting, key=lambda endpoint: self._in_flight[key_of(endpoint.engine)], default=None)


def _known(engine: registry_pb2.Engine) -> Known:
    endpoint = router_pb2.Endpoint(
        engine=engine.ref,
        http_url=engine.http_url,
        data_parallel_rank=engine.data_parallel_rank,
        data_parallel_size=engine.data_parallel_size,
    )
    decodes = engine.role in (registry_pb2.ENGINE_ROLE_DECODE, registry_pb2.ENGINE_ROLE_BOTH)
    return Known(endpoint, frozenset(engine.models), decodes)
