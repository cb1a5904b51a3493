"""Between the wire's messages and the router's values. Requests are checked here."""

from functools import lru_cache

from kvlease.client.convert import seconds
from kvlease.router.engine import Engine, EngineKey, Layout, Load, Role
from kvlease.router.record import Decision, Prefill, Record, State
from kvlease.router.registry import Branch
from kvlease.router.router import Ask
from kvlease.router.ticket import to_proto
from kvlease.rpc import Malformed, Violation
from kvlease.rpc.errors import duration, write
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2

MAX_ID_BYTES = 256
MAX_REQUEST_ID_BYTES = 128
MAX_MODEL_BYTES = 1024
MAX_EXCLUDED = 256
MAX_REPORT_BYTES = 1024
MAX_WAIT = 60.0
NOBODY: frozenset[EngineKey] = frozenset()

ROLES = {
    registry_pb2.ENGINE_ROLE_PREFILL: Role.PREFILL,
    registry_pb2.ENGINE_ROLE_DECODE: Role.DECODE,
    registry_pb2.ENGINE_ROLE_BOTH: Role.BOTH,
}
STATES = {
    State.ROUTED: router_pb2.TICKET_STATE_ROUTED,
    State.PREFILLED: router_pb2.TICKET_STATE_PREFILLED,
    State.COMPLETED: router_pb2.TICKET_STATE_COMPLETED,
    State.CANCELLED: router_pb2.TICKET_STATE_CANCELLED,
}
PREFILL_STATES = {
    Prefill.PENDING: router_pb2.PREFILL_STATE_PENDING,
    Prefill.PUBLISHED: router_pb2.PREFILL_STATE_PUBLISHED,
    Prefill.FAILED: router_pb2.PREFILL_STATE_FAILED,
}


def ask(request: router_pb2.RouteRequest, tenant: str, wait: float) -> Ask:
    """Returns what is to be routed. Raises Malformed."""
    request_id, conversation_id, model = request.request_id, request.conversation_id, request.model
    _check(
        _text("request_id", request_id, MAX_REQUEST_ID_BYTES),
        _text("conversation_id", conversation_id, MAX_ID_BYTES, required=False),
        _text("model", model, MAX_MODEL_BYTES),
        _most("exclude", len(request.exclude), MAX_EXCLUDED, "engines"),
    )
    return Ask(
        tenant=tenant,
        request_id=request_id,
        conversation_id=conversation_id,
        model=model,
        prompt_tokens=request.prompt_tokens,
        excluded=frozenset(map(key_of, request.exclude)) if request.exclude else NOBODY,
        wait=wait,
    )


def caller(field: str, engine: lease_pb2.EngineRef) -> EngineKey:
    """Returns which engine calls. Raises Malformed."""
    _check(
        _text(f"{field}.engine_id", engine.engine_id, MAX_ID_BYTES),
        _text(f"{field}.incarnation", engine.incarnation, MAX_ID_BYTES),
    )
    return key_of(engine)


def wait_of(request: router_pb2.ResolveTicketRequest) -> float:
    """Returns how many seconds to wait. Raises Malformed."""
    wait = seconds(request.wait)
    if not 0.0 <= wait <= MAX_WAIT:
        raise Malformed(Violation("wait", f"must be from 0 to {MAX_WAIT:.0f} s"))
    return wait


def stop_reason(request: router_pb2.CompleteTicketRequest) -> lease_pb2.StopReason.ValueType:
    """Returns why decode stopped. Raises Malformed."""
    if request.stop_reason not in lease_pb2.StopReason.values():
        raise Malformed(Violation("stop_reason", "must be one of the values that are defined"))
    return request.stop_reason


def published(request: router_pb2.PublishPrefillRequest) -> tuple[str, lease_pb2.PrefillReport | None]:
    """Returns prefill's lease id and report. Raises Malformed."""
    _check(
        _text("lease_id", request.lease_id, MAX_REQUEST_ID_BYTES),
        _most("report", request.report.ByteSize(), MAX_REPORT_BYTES, "bytes"),
    )
    return request.lease_id, request.report if request.HasField("report") else None


def key_of(engine: lease_pb2.EngineRef) -> EngineKey:
    return EngineKey(engine.engine_id, engine.incarnation)


def branch_of(branch: registry_pb2.Branch) -> Branch:
    return Branch(key_of(branch.holder), branch.token_count, branch.generation)


def engine_of(status: registry_pb2.EngineStatus) -> Engine | None:
    """Returns an engine; None for one whose role this version does not know."""
    engine, load = status.engine, status.load
    role = ROLES.get(engine.role)
    if role is None:
        return None
    return Engine(
        key=key_of(engine.ref),
        role=role,
        models=frozenset(engine.models),
        http_url=engine.http_url,
        rank=engine.data_parallel_rank,
        ranks=engine.data_parallel_size,
        layout=Layout(engine.vllm_version, engine.kv_layout, engine.digest_key_id),
        bidirectional=engine.bidirectional,
        total_blocks=engine.total_blocks,
        healthy=status.healthy,
        draining=status.draining,
        load=Load(load.running, load.waiting, load.free_blocks, load.leased_blocks),
        silent=seconds(status.silent),
    )


def route_response(record: Record, decision: Decision, now: float) -> router_pb2.RouteResponse:
    placement = decision.placement
    response = router_pb2.RouteResponse(
        ticket=decision.ticket,
        ticket_id=record.terms.ticket_id,
        mode=router_pb2.ROUTE_MODE_PREFILL_DECODE if placement.prefill else router_pb2.ROUTE_MODE_DECODE_ONLY,
        prefill=_endpoint(placement.prefill) if placement.prefill else None,
        decode=_endpoint(placement.decode),
        leased_tokens=decision.leased_tokens,
    )
    write(record.expires - now, response.ttl)
    return response


def resolve_response(record: Record, engine: EngineKey) -> router_pb2.ResolveTicketResponse:
    return router_pb2.ResolveTicketResponse(
        terms=to_proto(record.terms),
        leg=router_pb2.LEG_PREFILL if engine == record.terms.prefill else router_pb2.LEG_DECODE,
        prefill_state=PREFILL_STATES[record.prefill],
        prefill_lease_id=record.lease_id,
    )


def ticket(record: Record, now: float) -> router_pb2.Ticket:
    """Returns what is known of a turn; of another router's, its terms and its state here."""
    known = record.decision
    return router_pb2.Ticket(
        terms=to_proto(record.terms),
        state=STATES[record.state],
        age=duration(now - record.since),
        model=known.model if known else "",
        leased_tokens=known.leased_tokens if known else 0,
        decision=known.placement.why if known else "routed by another router",
        report=record.report,
        prefill_state=PREFILL_STATES[record.prefill],
    )


def _endpoint(engine: Engine) -> router_pb2.Endpoint:
    return _endpoint_of(engine.key, engine.http_url, engine.rank, engine.ranks)


@lru_cache(1024)
def _endpoint_of(key: EngineKey, http_url: str, rank: int, ranks: int) -> router_pb2.Endpoint:
    """One message for all answers that name the engine."""
    ref = lease_pb2.EngineRef(engine_id=key.engine_id, incarnation=key.incarnation)
    return router_pb2.Endpoint(engine=ref, http_url=http_url, data_parallel_rank=rank, data_parallel_size=ranks)


def _check(*found: Violation | None) -> None:
    if any(found):
        raise Malformed(*filter(None, found))


def _text(field: str, value: str, most: int, *, required: bool = True) -> Violation | None:
    if not value:
        return Violation(field, "must be given") if required else None
    if len(value) <= most and value.isascii() and "\0" not in value:
        return None
    fits = len(value.encode()) <= most and "\0" not in value
    return None if fits else Violation(field, f"must be at most {most} bytes, without NUL")


def _most(field: str, count: int, most: int, unit: str) -> Violation | None:
    return Violation(field, f"must be at most {most} {unit}") if count > most else None
