"""What applications read: frozen values in plain Python.

Every duration is a float in seconds. One that runs down (`Lease.remaining`, `Renewal.remaining`, `Turn.ttl`) counts
from the moment its request was *sent*, so that a slow answer never makes it look longer than it is.
"""

from dataclasses import dataclass
from enum import StrEnum


class RouteMode(StrEnum):
    """How a turn is served."""

    PREFILL_DECODE = "prefill_decode"
    DECODE_ONLY = "decode_only"
    UNKNOWN = "unknown"  # as everywhere below: sent by a server that is newer than this client


class Leg(StrEnum):
    """The two halves of a turn."""

    PREFILL = "prefill"
    DECODE = "decode"
    UNKNOWN = "unknown"


class PrefillState(StrEnum):
    """How far prefill is."""

    PENDING = "pending"
    PUBLISHED = "published"
    FAILED = "failed"
    UNKNOWN = "unknown"


class TicketState(StrEnum):
    """Where a ticket is in its life."""

    ROUTED = "routed"
    PREFILLED = "prefilled"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class EngineRole(StrEnum):
    """What an engine may be used for."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"
    UNKNOWN = "unknown"


class LeaseKind(StrEnum):
    """What a lease keeps: a conversation's KV for its next turn, or a turn's until decode has read it."""

    DECODE = "decode"
    PREFILL = "prefill"
    UNKNOWN = "unknown"


class LeaseState(StrEnum):
    """Where a lease is in its life. It only ever moves forward."""

    LIVE = "live"
    RETIRING = "retiring"
    FREEING = "freeing"
    FREED = "freed"
    UNKNOWN = "unknown"


class RetireReason(StrEnum):
    """Why a lease left LIVE."""

    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    ENDED = "ended"
    REVOKED = "revoked"
    RELEASED = "released"
    OWNER_LOST = "owner_lost"
    BRANCH_LIMIT = "branch_limit"
    READ = "read"
    UNKNOWN = "unknown"


class StopReason(StrEnum):
    """Why decode stopped; decides how long a lease lives without renewal."""

    ANSWERED = "answered"
    TOOLS_CALLED = "tools_called"
    LENGTH = "length"
    UNKNOWN = "unknown"


class RenewStatus(StrEnum):
    """What became of a renewal. NOT_FOUND: unknown, expired, retired, or another tenant's."""

    RENEWED = "renewed"
    NOT_FOUND = "not_found"
    AT_LIMIT = "at_limit"
    UNKNOWN = "unknown"


class LeaseEventKind(StrEnum):
    """What happened to a lease. SYNCED: all that existed when the watch began has been told."""

    EXISTS = "exists"
    SYNCED = "synced"
    GRANTED = "granted"
    RENEWED = "renewed"
    CLAIMED = "claimed"
    CLAIM_ENDED = "claim_ended"
    RETIRED = "retired"
    FREED = "freed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class EngineRef:
    """One start of one vLLM scheduler."""

    engine_id: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to send one leg. *data_parallel_rank* goes into `X-data-parallel-rank` when the size is over 1."""

    engine: EngineRef
    http_url: str
    data_parallel_rank: int = 0
    data_parallel_size: int = 1


@dataclass(frozen=True, slots=True)
class Turn:
    """A routing decision. Both legs carry *ticket* as `kv_transfer_params.kvlease_ticket`."""

    ticket: str
    ticket_id: str
    mode: RouteMode
    prefill: Endpoint | None
    decode: Endpoint
    leased_tokens: int
    ttl: float


@dataclass(frozen=True, slots=True)
class TicketTerms:
    """What a ticket says."""

    ticket_id: str
    tenant: str
    conversation_id: str
    mode: RouteMode
    prefill: EngineRef | None
    decode: EngineRef
    base_generation: int
    lifetime: float


@dataclass(frozen=True, slots=True)
class ResolvedTicket:
    """A ticket whose signature was proved, and how far its prefill is."""

    terms: TicketTerms
    leg: Leg
    prefill_state: PrefillState
    prefill_lease_id: str


@dataclass(frozen=True, slots=True)
class PrefillReport:
    """How prefill came by its prompt's KV: local + reused + computed tokens make the prompt."""

    prompt_tokens: int
    local_tokens: int
    reused_tokens: int
    computed_tokens: int
    miss_reason: str
    kv_bytes: int
    prefill_duration: float
    added_wait: float


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a router knows of a ticket. *report* is there once prefill has published."""

    terms: TicketTerms
    state: TicketState
    age: float
    model: str
    leased_tokens: int
    decision: str
    report: PrefillReport | None
    prefill_state: PrefillState


@dataclass(frozen=True, slots=True)
class Lease:
    """The promise that a request's KV stays."""

    lease_id: str
    kind: LeaseKind
    state: LeaseState
    tenant: str
    conversation_id: str
    generation: int
    parent_lease_id: str
    ticket_id: str
    engine: EngineRef
    request_id: str
    tokens: int
    blocks: int
    remaining: float
    age: float
    idle: float
    claims: int
    stop_reason: StopReason | None
    retire_reason: RetireReason | None


@dataclass(frozen=True, slots=True)
class LeaseEvent:
    """One event of a watch. *lease* is as it was after it, and absent in SYNCED."""

    kind: LeaseEventKind
    lease: Lease | None


@dataclass(frozen=True, slots=True)
class Renewal:
    """What became of a renewal. *remaining* is the longest among the *leases* that it concerned."""

    status: RenewStatus
    remaining: float
    leases: int


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """How busy an engine is, as of its last heartbeat."""

    running: int
    waiting: int
    free_blocks: int
    leased_blocks: int


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine, its session and its load. *silent*: since its last heartbeat."""

    ref: EngineRef
    role: EngineRole
    models: tuple[str, ...]
    http_url: str
    data_parallel_rank: int
    data_parallel_size: int
    vllm_version: str
    kv_layout: str
    block_size: int
    total_blocks: int
    digest_key_id: str
    bidirectional: bool
    connector_version: str
    healthy: bool
    draining: bool
    silent: float
    load: EngineLoad
    leases: int
    leased_blocks: int
    claimed_blocks: int
    retention_budget_blocks: int
    rival_http_url: str = ""
    """Where another process serves that announces itself by the same id, by mistake."""
