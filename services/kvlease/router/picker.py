"""Takes the best of the scored engines, and spreads requests over equals."""

from collections.abc import Collection, Sequence
from random import Random

from kvlease.router.engine import Candidate, Engine, EngineKey

TIE = 0.01  # scores this close are equal: a few blocks more are no reason to send every request to one engine
SAMPLE = 32  # engines looked at for one leg


class Picker:
    """Remembers who was picked when: among equals the one picked longest ago goes first, then a random one."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._picks = 0
        self._picked: dict[EngineKey, int] = {}

    def sample(self, engines: Collection[Engine]) -> Collection[Engine]:
        """Returns all engines, or some at random of very many.

        The best of these is nearly as good and found faster, and routers that see the same loads do not all choose
        the same engine.
        """
        return self._random.sample(tuple(engines), SAMPLE) if len(engines) > SAMPLE else engines

    def pick(self, candidates: Sequence[Candidate], scores: Sequence[float]) -> Candidate:
        """Picks one. There must be one."""
        best = max(scores) - TIE
        equals = [c for c, score in zip(candidates, scores, strict=True) if score >= best]
        last = [self._picked.get(c.engine.key, 0) for c in equals]
        oldest = min(last)
        chosen = self._random.choice([c for c, at in zip(equals, last, strict=True) if at == oldest])
        self._picks += 1
        self._picked[chosen.engine.key] = self._picks
        return chosen

    def keep_only(self, known: Collection[EngineKey]) -> None:
        """Forgets engines that are gone."""
        self._picked = {key: at for key, at in self._picked.items() if key in known}
