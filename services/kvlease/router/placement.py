"""Chooses the engines of a turn: filters, weighted scores, pick."""

from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import NamedTuple

from kvlease.router.engine import Candidate, Engine, EngineKey
from kvlease.router.errors import ModelNotFound, NoEngine
from kvlease.router.filters import kept, not_among, other_than
from kvlease.router.fleet import Fleet, Pool
from kvlease.router.overload import Overload
from kvlease.router.picker import Picker
from kvlease.router.scorers import Scorer, by_free_blocks, by_partners, by_queue, by_reuse

QUEUE, BLOCKS, PARTNERS, REUSE = 2.0, 1.0, 1.0, 1.0
MISFITS = 3
"""Engines that a decision names as not fitting."""
LOAD: tuple[tuple[float, Scorer], ...] = ((QUEUE, by_queue), (BLOCKS, by_free_blocks))


class Turn(NamedTuple):
    """What decides about engines."""

    model: str
    holder: EngineKey | None = None
    """Keeps the conversation's KV, or served its last turn."""
    excluded: frozenset[EngineKey] = frozenset()
    rendezvous: bool = True
    """Prefill can tell decode where its KV is: the registry answers."""


class Placement(NamedTuple):
    """The engines of a turn, and why these. Without prefill, decode computes the prompt."""

    decode: Engine
    prefill: Engine | None
    why_decode: str
    why_prefill: str

    @property
    def why(self) -> str:
        """Returns the decision in words."""
        prefill = self.prefill.key.engine_id if self.prefill else "none"
        return f"decode {self.decode.key.engine_id}: {self.why_decode}; prefill {prefill}: {self.why_prefill}"


class Placer:
    """Places turns on a fleet; asks *unseen* how many requests each engine's load does not show yet."""

    def __init__(self, *, overload: Overload, unseen: Callable[[EngineKey], int], picker: Picker) -> None:
        self._overload = overload
        self._unseen = unseen
        self._picker = picker

    def place(self, fleet: Fleet, turn: Turn) -> Placement:
        """Chooses decode, then a prefill engine that fits it.

        Raises ModelNotFound when no engine of any kind serves the model, NoEngine when none may decode it now or
        none has registered at all.
        """
        pool = fleet.pools.get(turn.model)
        if pool is None:
            raise ModelNotFound(turn.model) if fleet.engines else NoEngine(turn.model)
        decode, why_decode = self._decode(pool, turn)
        holder = fleet.engines.get(turn.holder) if turn.holder else None
        prefill, why_prefill = self._prefill(pool, turn, decode, holder)
        return Placement(decode, prefill, why_decode, why_prefill)

    def _decode(self, pool: Pool, turn: Turn) -> tuple[Engine, str]:
        engines = _allowed(pool.decodes.values(), turn)
        if not engines:
            raise NoEngine(turn.model)
        why = "least loaded"
        if turn.holder:
            holder = pool.decodes.get(turn.holder) if turn.holder not in turn.excluded else None
            if holder and not self._overload.applies(self._candidate(holder), map(self._candidate, engines)):
                return holder, "holds the conversation"
            engines = kept(engines, not_among({turn.holder}))
            why += ", its holder is overloaded" if holder else ", its holder is not available"
        return self._best(engines, (*LOAD, (PARTNERS, by_partners(pool.prefills)))), why

    def _prefill(self, pool: Pool, turn: Turn, decode: Engine, holder: Engine | None) -> tuple[Engine | None, str]:
        if not turn.rendezvous:
            return None, "the registry is out of reach"
        engines = kept(_allowed(pool.prefills.get(decode.layout, ()), turn), other_than(decode))
        if not engines:
            return None, f"no other engine fits{_misfits(pool, turn, decode)}"
        reuse: tuple[tuple[float, Scorer], ...] = ((REUSE, by_reuse(holder)),) if holder else ()
        return self._best(engines, (*LOAD, *reuse)), "least loaded"

    def _candidate(self, engine: Engine) -> Candidate:
        return Candidate(engine, self._unseen(engine.key))

    def _best(self, engines: Collection[Engine], scorers: Iterable[tuple[float, Scorer]]) -> Engine:
        candidates = list(map(self._candidate, self._picker.sample(engines)))
        totals = [0.0] * len(candidates)
        for weight, scorer in scorers:
            totals = [total + weight * score for total, score in zip(totals, scorer(candidates), strict=True)]
        return self._picker.pick(candidates, totals).engine


def _misfits(pool: Pool, turn: Turn, decode: Engine) -> str:
    """Names some of the engines that could prefill for another decode engine, and why not for this one."""
    others = (engine for layout, engines in pool.prefills.items() if layout != decode.layout for engine in engines)
    misfits = (engine for engine in others if engine.key not in turn.excluded)
    told = [f"{each.key.engine_id}: other {each.layout.difference(decode.layout)}" for each in islice(misfits, MISFITS)]
    return f" ({', '.join(told)})" if told else ""


def _allowed(engines: Collection[Engine], turn: Turn) -> Collection[Engine]:
    return kept(engines, not_among(turn.excluded)) if turn.excluded else engines
