"""Leases and claims: the values. Numbers of enums are those of the wire."""

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kvlease.registry.chain import Chain

if TYPE_CHECKING:
    from kvlease.registry.leases import Lease


class Kind(enum.IntEnum):
    """What a lease keeps."""

    DECODE = 1
    PREFILL = 2


class State(enum.IntEnum):
    """Where a lease is in its life; it only ever moves forward."""

    LIVE = 1
    RETIRING = 2
    FREEING = 3
    FREED = 4


class Reason(enum.IntEnum):
    """Why a lease left LIVE."""

    NONE = 0
    EXPIRED = 1
    SUPERSEDED = 2
    ENDED = 3
    REVOKED = 4
    RELEASED = 5
    OWNER_LOST = 6
    BRANCH_LIMIT = 7
    READ = 8


class StopReason(enum.IntEnum):
    """Why decode stopped."""

    UNKNOWN = 0
    ANSWERED = 1
    TOOLS_CALLED = 2
    LENGTH = 3


class EngineRef(NamedTuple):
    """One start of one engine."""

    engine_id: str
    incarnation: str


class Conversation(NamedTuple):
    """A conversation; its id is empty where nothing is kept for later turns."""

    tenant: str
    conversation_id: str


class Handle(NamedTuple):
    """Where KV lies. The body is the connectors' business."""

    engine: EngineRef
    request_id: str
    block_count: int
    chain: Chain
    body: bytes
    body_format: str


class Terms(NamedTuple):
    """What the owner says of a lease. A retry says the same."""

    lease_id: str
    kind: Kind
    conversation: Conversation
    ticket_id: str
    parent_lease_id: str
    handle: Handle
    stop_reason: StopReason

    @property
    def engine(self) -> EngineRef:
        return self.handle.engine


@dataclass(slots=True, eq=False)
class Claim:
    """A reader's hold on a lease. Belongs to the reader's engine, so that it outlives the reader's session."""

    claim_id: str
    reader: EngineRef
    target: object
    """What was asked for: a retry asks for the same."""
    lease: "Lease"
    ends_at: float
    matched_tokens: int
