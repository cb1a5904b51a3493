"""Requests as values of the domain. Whatever a caller sends that is not what the API says is refused here."""

from collections.abc import Sequence

from kvlease.registry import parts
from kvlease.registry.announcements import Announced
from kvlease.registry.checks import Checks
from kvlease.registry.claims import ById, Prefill, ReadOutcome, Target
from kvlease.registry.endings import Selection
from kvlease.registry.lease import Conversation, StopReason, Terms
from kvlease.registry.lists import Filter
from kvlease.registry.parts import MAX_ID, MAX_NAME
from kvlease.registry.renewals import Renewal
from kvlease.registry.session import Credential, Engine
from kvlease.registry.sessions import Beat
from kvlease.registry.turns import TurnEnd, TurnOutcome
from kvlease.v1 import registry_pb2

MAX_TOKEN = 19
MAX_ANNOUNCED = 256
MAX_RENEWALS = 1000
MAX_PAGE = 1000
MAX_LOCATED = 1000
LONGEST_RELEASE_WAIT = 30.0
LONGEST_CLAIM_WAIT = 60.0
_READ_OUTCOMES = frozenset(ReadOutcome)
_TURN_OUTCOMES = frozenset(TurnOutcome)
_STOP_REASONS = frozenset(StopReason)


def engine(request: registry_pb2.OpenSessionRequest) -> Engine:
    """Reads the engine that opens a session."""
    checks, given = Checks(), request.engine
    ref = parts.engine_ref(checks, given.ref, "engine.ref")
    checks.one_of(given.role, (1, 2, 3), "engine.role")
    checks.url(given.http_url, "engine.http_url")
    checks.that(bool(given.models), "engine.models", "must name at least one model")
    for i, model in enumerate(given.models):
        checks.name(model, f"engine.models[{i}]", MAX_NAME)
    checks.done()
    return Engine(ref, tuple(given.models), given.total_blocks, given.SerializeToString())


def credential(message: registry_pb2.SessionCredential) -> Credential:
    """Reads a credential; a missing one is unknown like any other."""
    return Credential(message.session_id, message.session_secret)


def beat(request: registry_pb2.HeartbeatRequest) -> Beat:
    """Reads a heartbeat."""
    checks = Checks()
    freed, renew, load = tuple(request.freed_lease_ids), tuple(request.renew_lease_ids), request.load
    for field, named in (("freed_lease_ids", freed), ("renew_lease_ids", renew)):
        for i, lease_id in enumerate(named):
            checks.name(lease_id, f"{field}[{i}]", MAX_ID)
    checks.done()
    return Beat(
        received=request.received_number,
        load=load.SerializeToString(),
        leased=load.leased_blocks,
        reclaim=request.reclaim_blocks,
        freed=freed,
        renew=renew,
        draining=request.draining,
    )


def announced(request: registry_pb2.AnnounceLeasesRequest) -> Sequence[Announced]:
    """Reads what an owner holds."""
    checks = Checks()
    checks.that(len(request.leases) <= MAX_ANNOUNCED, "leases", f"must be at most {MAX_ANNOUNCED}")
    read = [parts.announced(checks, lease, f"leases[{i}]") for i, lease in enumerate(request.leases[:MAX_ANNOUNCED])]
    checks.done()
    return read


def grant(request: registry_pb2.GrantLeaseRequest) -> tuple[Terms, bytes | None]:
    """Reads what is to be leased, and prefill's report if there is one."""
    checks = Checks()
    terms = parts.terms(checks, request, "")
    checks.done()
    report = request.report.SerializeToString() if request.HasField("report") else None
    return terms, report


def renewals(request: registry_pb2.RenewLeasesRequest) -> Sequence[Renewal]:
    """Reads what is to be renewed."""
    checks = Checks()
    checks.that(len(request.renewals) <= MAX_RENEWALS, "renewals", f"must be at most {MAX_RENEWALS}")
    read = [parts.renewal(checks, x, f"renewals[{i}]") for i, x in enumerate(request.renewals[:MAX_RENEWALS])]
    checks.done()
    return read


def lease_id(request: registry_pb2.GetLeaseRequest) -> str:
    """Reads which lease is wanted."""
    checks = Checks()
    checks.name(request.lease_id, "lease_id", MAX_ID)
    checks.one_of(request.view, (0, 1, 2), "view")
    checks.done()
    return request.lease_id


def release(request: registry_pb2.ReleaseLeaseRequest) -> tuple[str, float]:
    """Reads which lease is given back, and how long to wait."""
    checks = Checks()
    checks.name(request.lease_id, "lease_id", MAX_ID)
    wait = checks.seconds(request.wait, "wait", LONGEST_RELEASE_WAIT)
    checks.done()
    return request.lease_id, wait


def release_all(request: registry_pb2.ReleaseAllRequest) -> float:
    """Reads how long to wait."""
    checks = Checks()
    wait = checks.seconds(request.wait, "wait", LONGEST_RELEASE_WAIT)
    checks.done()
    return wait


def conversation(request: registry_pb2.EndConversationRequest, tenant: str) -> Conversation:
    """Reads which conversation of the caller's tenant is meant."""
    checks = Checks()
    checks.name(request.conversation_id, "conversation_id", MAX_NAME)
    checks.done()
    return Conversation(tenant, request.conversation_id)


def claim(request: registry_pb2.ClaimLeaseRequest) -> tuple[str, Target, float]:
    """Reads what is to be claimed, under which id, and how long to wait."""
    checks = Checks()
    checks.name(request.claim_id, "claim_id", MAX_ID)
    wait = checks.seconds(request.wait, "wait", LONGEST_CLAIM_WAIT)
    target: Target = ById("")
    match request.WhichOneof("target"):
        case "branch":
            target = parts.branch(checks, request.branch)
        case "prefill_ticket_id":
            engine = parts.engine_ref(checks, request.prefill, "prefill") if request.HasField("prefill") else None
            target = Prefill(checks.name(request.prefill_ticket_id, "prefill_ticket_id", MAX_NAME), engine)
        case "lease_id":
            target = ById(checks.name(request.lease_id, "lease_id", MAX_ID))
        case _:
            checks.that(False, "target", "must be given")
    checks.done()
    return request.claim_id, target, wait


def claim_id(request: registry_pb2.RenewClaimRequest | registry_pb2.FinishClaimRequest) -> str:
    """Reads which claim is meant."""
    checks = Checks()
    checks.name(request.claim_id, "claim_id", MAX_ID)
    if isinstance(request, registry_pb2.FinishClaimRequest):
        checks.one_of(request.outcome, _READ_OUTCOMES, "outcome")
    checks.done()
    return request.claim_id


def turn_end(request: registry_pb2.EndTurnRequest) -> TurnEnd:
    """Reads how a turn ended."""
    checks = Checks()
    checks.name(request.ticket_id, "ticket_id", MAX_NAME)
    key = parts.conversation_key(checks, request.conversation, "conversation", kept=False)
    outcome = checks.one_of(request.outcome, _TURN_OUTCOMES, "outcome")
    stop_reason = checks.one_of(request.stop_reason, _STOP_REASONS, "stop_reason")
    named = request.HasField("decode") or outcome == TurnOutcome.NOTHING_KEPT
    decode = parts.engine_ref(checks, request.decode, "decode") if named else None
    checks.done()
    return TurnEnd(request.ticket_id, key, TurnOutcome(outcome), StopReason(stop_reason), decode)


def selection(request: registry_pb2.RevokeLeasesRequest) -> Selection:
    """Reads what is to be revoked."""
    checks = Checks()
    selected = bool(request.lease_ids or request.engine_id or request.HasField("conversation"))
    checks.that(selected, "lease_ids", "must be given, or a conversation, or an engine id")
    for i, value in enumerate(request.lease_ids):
        checks.name(value, f"lease_ids[{i}]", MAX_ID)
    checks.name(request.engine_id, "engine_id", MAX_NAME, optional=True)
    key = None
    if request.HasField("conversation"):
        key = parts.conversation_key(checks, request.conversation, "conversation", kept=True)
    checks.done()
    return Selection(tuple(request.lease_ids), key, request.engine_id)


def drain(request: registry_pb2.DrainEngineRequest) -> str:
    """Reads which engine is meant."""
    checks = Checks()
    checks.name(request.engine_id, "engine_id", MAX_NAME)
    checks.done()
    return request.engine_id


def page(request: registry_pb2.ListLeasesRequest, tenant: str) -> tuple[Filter, int, int]:
    """Reads which leases are wanted, after which one, and how many."""
    checks = Checks()
    wanted = parts.lease_filter(checks, request.filter, tenant)
    checks.one_of(request.view, (0, 1, 2), "view")
    token = request.page_token or "0"
    checks.that(token.isascii() and token.isdecimal() and len(token) <= MAX_TOKEN, "page_token", "is not of this API")
    checks.done()
    return wanted, int(token), min(request.page_size or MAX_PAGE, MAX_PAGE)


def located(request: registry_pb2.LocateConversationsRequest) -> Sequence[Conversation]:
    """Reads which conversations are looked for."""
    checks = Checks()
    checks.that(len(request.conversations) <= MAX_LOCATED, "conversations", f"must be at most {MAX_LOCATED}")
    checks.done()
    return [Conversation(key.tenant, key.conversation_id) for key in request.conversations]


def watched(request: registry_pb2.WatchLeasesRequest, tenant: str) -> Filter:
    """Reads which leases are watched."""
    checks = Checks()
    wanted = parts.lease_filter(checks, request.filter, tenant)
    checks.done()
    return wanted


def model(request: registry_pb2.ListEnginesRequest) -> str:
    """Reads which model is wanted; empty: any."""
    checks = Checks()
    checks.name(request.model, "model", MAX_NAME, optional=True)
    checks.done()
    return request.model
