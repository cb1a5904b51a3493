"""An engine as the router sees it, and how busy it is."""

import enum
from dataclasses import dataclass
from typing import NamedTuple


class EngineKey(NamedTuple):
    """One start of one engine."""

    engine_id: str
    incarnation: str


class Role(enum.Enum):
    """What an engine may be used for."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"


class Layout(NamedTuple):
    """What must be equal between two engines that exchange KV."""

    vllm_version: str
    kv_layout: str
    digest_key: str
    """Fingerprint of the key that proves prefixes: without the same one, what is read is proved to be nothing."""

    def difference(self, other: "Layout") -> str:
        """Returns what is not equal, in words; empty if all is."""
        names = ("version of vLLM", "KV layout", "digest key")
        return " and ".join(name for name, one, two in zip(names, self, other, strict=True) if one != two)


class Load(NamedTuple):
    """How busy an engine was at its last heartbeat: requests, and KV blocks."""

    running: int
    waiting: int
    free_blocks: int
    leased_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine, its health and its load. `silent` counts seconds since its last heartbeat, when the registry told."""

    key: EngineKey
    role: Role
    models: frozenset[str]
    http_url: str
    rank: int
    ranks: int
    layout: Layout
    bidirectional: bool
    total_blocks: int
    healthy: bool
    draining: bool
    load: Load
    silent: float


class Candidate(NamedTuple):
    """An engine that may be chosen; `unseen` counts requests sent to it that its load does not show yet."""

    engine: Engine
    unseen: int

    @property
    def requests(self) -> int:
        """Requests at the engine, or on their way to it."""
        load = self.engine.load
        return load.running + load.waiting + self.unseen

    @property
    def backlog(self) -> int:
        """Requests that wait. One that is on its way waits as well where others already do."""
        waiting = self.engine.load.waiting
        return waiting + self.unseen if waiting else 0

    @property
    def free(self) -> float:
        """Share of its KV blocks that are free; 1 where the pool is unknown."""
        total = self.engine.total_blocks
        return min(1.0, self.engine.load.free_blocks / total) if total else 1.0

    @property
    def reclaimable(self) -> float:
        """Share of its KV blocks that are free or kept only for leases, which go when memory is needed."""
        total, load = self.engine.total_blocks, self.engine.load
        return min(1.0, (load.free_blocks + load.leased_blocks) / total) if total else 1.0
