"""When a conversation is better served elsewhere than where its KV is."""

from collections.abc import Iterable
from dataclasses import dataclass

from kvlease.router.engine import Candidate


@dataclass(frozen=True, slots=True)
class Overload:
    """What an engine must exceed, compared with the others that could serve, to count as overloaded."""

    backlog: int = 8
    """Requests waiting more than at the engine where the fewest wait."""
    blocks: float = 0.05
    """Share of KV blocks that must be free or reclaimable, if any other engine has more."""

    def __post_init__(self) -> None:
        if self.backlog < 1:
            raise ValueError("overload backlog must be at least 1 request")
        if not 0.0 <= self.blocks < 1.0:
            raise ValueError("overload blocks must be a share from 0 to below 1")

    def applies(self, engine: Candidate, others: Iterable[Candidate]) -> bool:
        """Tells whether *engine* is overloaded while one of *others* is not. In the common case none is looked at."""
        crowded = engine.backlog > self.backlog
        full = engine.reclaimable < self.blocks
        if not (crowded or full):
            return False
        return any(self._calmer(other, engine, full=full) for other in others)

    def _calmer(self, other: Candidate, engine: Candidate, *, full: bool) -> bool:
        if other.reclaimable < self.blocks:
            return False
        return full or engine.backlog - other.backlog > self.backlog
