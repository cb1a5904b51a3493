"""What a simulated engine is told at start."""

from dataclasses import dataclass, field

from kvlease.connector.settings import Settings as ConnectorSettings
from kvlease.sim.latency import Latency
from kvlease.sim.scheduler import Limits
from kvlease.v1.registry_pb2 import EngineRole

ROLES = {
    "prefill": EngineRole.ENGINE_ROLE_PREFILL,
    "decode": EngineRole.ENGINE_ROLE_DECODE,
    "both": EngineRole.ENGINE_ROLE_BOTH,
}
MOST_BLOCK_SIZE = 128  # the stride of the prefix proof: a block is proved whole or not at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One engine.

    Attributes:
        port: Of the HTTP server; 0: any free one.
        connector: What the connector would find in its environment. An empty `engine_id` becomes name, or else host,
            and port; its URL is not used.
        name: Host by which gateways and other engines reach it; empty: where it listens.
        front: URL of the server that it shares with other data-parallel ranks; empty: its own.
        rank: Which of *ranks* behind that URL it is.
        blocks: In the pool, the null block among them.
        answer_tokens: Words of an answer that is not cut short.
    """

    role: str = "both"
    host: str = "127.0.0.1"
    port: int = 0
    model: str = "sim"
    connector: ConnectorSettings
    name: str = ""
    front: str = ""
    rank: int = 0
    ranks: int = 1
    blocks: int = 4096
    limits: Limits = field(default_factory=Limits)
    latency: Latency = field(default_factory=Latency)
    answer_tokens: int = 64

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        if self.role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}, not {self.role!r}")
        if self.blocks < 2:  # noqa: PLR2004 - the null block and one more
            raise ValueError("blocks must be at least 2")
        size = self.limits.block_size
        if not 1 <= size <= MOST_BLOCK_SIZE or MOST_BLOCK_SIZE % size:
            raise ValueError(f"block_size must divide {MOST_BLOCK_SIZE}, not be {size}")
        for name, value in (("answer_tokens", self.answer_tokens), ("max requests", self.limits.requests)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.limits.tokens < 1:
            raise ValueError("max tokens of a step must be at least 1")

    @property
    def capacity(self) -> int:
        """Tokens that fit into the pool: the longest prompt with its answer."""
        return (self.blocks - 1) * self.limits.block_size
