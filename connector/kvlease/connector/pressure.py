"""When an engine asks for leased blocks back. Pure."""

from dataclasses import dataclass, field
from typing import Protocol

PATIENCE = 0.2  # seconds until what was asked for is asked for again


class Pool(Protocol):
    """What is known of the blocks."""

    @property
    def blocks(self) -> int:
        """Kept by leases."""
        ...

    @property
    def free(self) -> int:
        """Allocatable now."""
        ...


@dataclass(slots=True)
class Pressure:
    """Keeps a watermark of free blocks ahead of need: vLLM tells nobody when an allocation fails."""

    total: int
    watermark: float  # share of the pool
    wanted: int = 0  # blocks of the request that vLLM asks about and has not allocated yet
    _asked: float = float("-inf")
    _mark: int = field(init=False)  # blocks

    def __post_init__(self) -> None:
        self._mark = round(self.total * self.watermark)

    def reclaim(self, pool: Pool, now: float) -> int:
        """Returns how many blocks to ask for now; 0: none, or asked for a moment ago."""
        if not (blocks := pool.blocks):
            return 0
        short = self._mark + self.wanted - pool.free
        if short <= 0 or now < self._asked + PATIENCE:
            return 0
        self._asked = now
        return min(short, blocks)
