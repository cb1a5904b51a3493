"""What the page shows, as JSON. Lengths of time in seconds; no instants."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kvlease.client.convert import seconds
from kvlease.gateway.status.history import EVERY, KEEP, Point
from kvlease.v1 import lease_pb2, registry_pb2


class Blocks(msgspec.Struct, frozen=True):
    """An engine's KV blocks."""

    total: int
    free: int
    leased: int
    claimed: int
    budget: int


class EngineShown(msgspec.Struct, frozen=True):
    """An engine."""

    id: str
    role: str
    models: Sequence[str]
    vllm_version: str
    healthy: bool
    draining: bool
    silent: float
    running: int
    waiting: int
    leases: int
    blocks: Blocks


class LeaseShown(msgspec.Struct, frozen=True):
    """A lease."""

    conversation: str
    generation: int
    engine: str
    tokens: int
    state: str
    claims: int
    age: float
    idle: float
    remaining: float


class HistoryShown(msgspec.Struct, frozen=True):
    """The last points, oldest first: one each *every* seconds, at most *keep*."""

    every: float
    keep: int
    points: Sequence[Point]


class Status(msgspec.Struct, frozen=True):
    """All of it."""

    registry_reached: bool
    engines: Sequence[EngineShown]
    leases: Sequence[LeaseShown]
    more_leases: bool
    history: HistoryShown
    misses: Mapping[str, float]


def history(points: Iterable[Point]) -> HistoryShown:
    """Shows what happened lately."""
    return HistoryShown(EVERY, KEEP, list(points))


def engine(status: registry_pb2.EngineStatus) -> EngineShown:
    """Shows an engine."""
    of, load = status.engine, status.load
    return EngineShown(
        id=of.ref.engine_id,
        role=_word(registry_pb2.EngineRole.Name(of.role), "ENGINE_ROLE_"),
        models=list(of.models),
        vllm_version=of.vllm_version,
        healthy=status.healthy,
        draining=status.draining,
        silent=seconds(status.silent),
        running=load.running,
        waiting=load.waiting,
        leases=status.leases,
        blocks=Blocks(
            total=of.total_blocks,
            free=load.free_blocks,
            leased=load.leased_blocks,
            claimed=status.claimed_blocks,
            budget=status.retention_budget_blocks,
        ),
    )


def lease(of: lease_pb2.Lease) -> LeaseShown:
    """Shows a lease."""
    return LeaseShown(
        conversation=of.conversation.conversation_id,
        generation=of.generation,
        engine=of.handle.engine.engine_id,
        tokens=of.handle.token_count,
        state=_word(lease_pb2.LeaseState.Name(of.state), "LEASE_STATE_"),
        claims=of.claims,
        age=seconds(of.age),
        idle=seconds(of.idle),
        remaining=seconds(of.remaining),
    )


def _word(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).lower()
