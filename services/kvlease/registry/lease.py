"""Leases and claims: the values, and what may be asked of them. Numbers of enums are those of the wire."""

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kvlease.registry.chain import Chain
from kvlease.registry.gaps import Gaps

if TYPE_CHECKING:
    from kvlease.registry.session import Session


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


@dataclass(frozen=True, slots=True)
class Handle:
    """Where KV lies. The body is the connectors' business."""

    engine: EngineRef
    request_id: str
    block_count: int
    chain: Chain
    body: bytes
    body_format: str


@dataclass(frozen=True, slots=True)
class Terms:
    """What the owner says of a lease. A retry says the same."""

    lease_id: str
    kind: Kind
    conversation: Conversation
    ticket_id: str
    parent_lease_id: str
    handle: Handle
    stop_reason: StopReason


@dataclass(slots=True, eq=False)
class Lease:
    """A lease as the ledger keeps it. Instants are the ledger's; only the ledger moves the state."""

    terms: Terms
    owner: "Session"
    seq: int
    """Order of arrival, for lists."""
    stop_reason: StopReason
    granted_at: float
    expires_at: float
    lives_until: float
    """No renewal goes beyond."""
    renewed_at: float = field(init=False)
    """Last granted or renewed."""
    used_at: float = field(init=False)
    """Last granted, renewed or claimed."""
    generation: int = 0
    state: State = State.LIVE
    reason: Reason = Reason.NONE
    claims: int = 0
    returned: bool = False
    """Whether a next turn has come to it."""
    gaps: Gaps | None = None
    """What the value policy expects of it, if it learns that."""

    def __post_init__(self) -> None:
        self.renewed_at = self.used_at = self.granted_at

    @property
    def lease_id(self) -> str:
        return self.terms.lease_id

    @property
    def blocks(self) -> int:
        return self.terms.handle.block_count

    def remaining(self, now: float) -> float:
        """Seconds until it expires unrenewed; 0 once it is out of use."""
        return max(0.0, self.expires_at - now) if self.state is State.LIVE else 0.0

    @property
    def kept(self) -> bool:
        """Whether it counts against the retention budget: conversations do, a turn's prefill does not."""
        return self.terms.kind is Kind.DECODE and self.state <= State.RETIRING


@dataclass(slots=True, eq=False)
class Claim:
    """A reader's hold on a lease. Belongs to the reader's engine, so that it outlives the reader's session."""

    claim_id: str
    reader: EngineRef
    target: object
    """What was asked for: a retry asks for the same."""
    lease: Lease
    ends_at: float
    matched_tokens: int
