"""The engines at one moment, ordered by what is asked of them on every call."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kvlease.router.engine import Engine, EngineKey, Layout
from kvlease.router.filters import decodes, kept, prefills, takes_requests


@dataclass(frozen=True, slots=True)
class Pool:
    """The engines that may be chosen for one model; those for prefill by whom they exchange KV with."""

    prefills: Mapping[Layout, Sequence[Engine]]
    decodes: Mapping[EngineKey, Engine]

    @classmethod
    def of(cls, engines: Iterable[Engine]) -> "Pool":
        """Keeps those of the engines that take requests."""
        able = kept(engines, takes_requests)
        by_layout: defaultdict[Layout, list[Engine]] = defaultdict(list)
        for engine in kept(able, prefills):
            by_layout[engine.layout].append(engine)
        return cls(dict(by_layout), {engine.key: engine for engine in kept(able, decodes)})


@dataclass(frozen=True, slots=True)
class Fleet:
    """All engines that the registry knew, healthy or not, as of `at`."""

    at: float
    engines: Mapping[EngineKey, Engine]
    pools: Mapping[str, Pool]

    @classmethod
    def of(cls, engines: Iterable[Engine], at: float) -> "Fleet":
        """Groups the engines by model. A model whose engines are all unable has an empty pool."""
        known = {engine.key: engine for engine in engines}
        by_model: defaultdict[str, list[Engine]] = defaultdict(list)
        for engine in known.values():
            for model in engine.models:
                by_model[model].append(engine)
        return cls(at, known, {model: Pool.of(members) for model, members in by_model.items()})
