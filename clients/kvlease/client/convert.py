"""From `kvlease.v1` to `kvlease.client.types`. Pure, and forgiving: a newer server never breaks an older client."""

from google.protobuf.duration_pb2 import Duration

from kvlease.client import types, words
from kvlease.client.errors import Internal
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2


def seconds(duration: Duration) -> float:
    """Gives a length of time in seconds."""
    return duration.seconds + duration.nanos * 1e-9


def engine_ref(ref: lease_pb2.EngineRef) -> types.EngineRef:
    return types.EngineRef(ref.engine_id, ref.incarnation)


def endpoint(proto: router_pb2.Endpoint) -> types.Endpoint:
    return types.Endpoint(
        engine=engine_ref(proto.engine),
        http_url=proto.http_url,
        data_parallel_rank=proto.data_parallel_rank,
        data_parallel_size=max(1, proto.data_parallel_size),
    )


def turn(proto: router_pb2.RouteResponse) -> types.Turn:
    return types.Turn(
        ticket=proto.ticket,
        ticket_id=proto.ticket_id,
        mode=words.ROUTE_MODE.read(proto.mode),
        prefill=endpoint(proto.prefill) if proto.HasField("prefill") else None,
        decode=endpoint(proto.decode),
        leased_tokens=proto.leased_tokens,
        ttl=seconds(proto.ttl),
    )


def terms(proto: router_pb2.TicketTerms) -> types.TicketTerms:
    return types.TicketTerms(
        ticket_id=proto.ticket_id,
        tenant=proto.conversation.tenant,
        conversation_id=proto.conversation.conversation_id,
        mode=words.ROUTE_MODE.read(proto.mode),
        prefill=engine_ref(proto.prefill) if proto.HasField("prefill") else None,
        decode=engine_ref(proto.decode),
        base_generation=proto.base_generation,
        lifetime=seconds(proto.lifetime),
    )


def resolved_ticket(proto: router_pb2.ResolveTicketResponse) -> types.ResolvedTicket:
    return types.ResolvedTicket(
        terms=terms(proto.terms),
        leg=words.LEG.read(proto.leg),
        prefill_state=words.PREFILL_STATE.read(proto.prefill_state),
        prefill_lease_id=proto.prefill_lease_id,
    )


def report(proto: lease_pb2.PrefillReport) -> types.PrefillReport:
    return types.PrefillReport(
        prompt_tokens=proto.prompt_tokens,
        local_tokens=proto.local_tokens,
        reused_tokens=proto.reused_tokens,
        computed_tokens=proto.computed_tokens,
        miss_reason=proto.miss_reason,
        kv_bytes=proto.kv_bytes,
        prefill_duration=seconds(proto.prefill_duration),
        added_wait=seconds(proto.added_wait),
    )


def ticket(proto: router_pb2.Ticket) -> types.Ticket:
    return types.Ticket(
        terms=terms(proto.terms),
        state=words.TICKET_STATE.read(proto.state),
        age=seconds(proto.age),
        model=proto.model,
        leased_tokens=proto.leased_tokens,
        decision=proto.decision,
        report=report(proto.report) if proto.HasField("report") else None,
        prefill_state=words.PREFILL_STATE.read(proto.prefill_state),
    )


def lease(proto: lease_pb2.Lease) -> types.Lease:
    return types.Lease(
        lease_id=proto.lease_id,
        kind=words.LEASE_KIND.read(proto.kind),
        state=words.LEASE_STATE.read(proto.state),
        tenant=proto.conversation.tenant,
        conversation_id=proto.conversation.conversation_id,
        generation=proto.generation,
        parent_lease_id=proto.parent_lease_id,
        ticket_id=proto.ticket_id,
        engine=engine_ref(proto.handle.engine),
        request_id=proto.handle.request_id,
        tokens=proto.handle.token_count,
        blocks=proto.handle.block_count,
        remaining=seconds(proto.remaining),
        age=seconds(proto.age),
        idle=seconds(proto.idle),
        claims=proto.claims,
        stop_reason=words.STOP_REASON.read_optional(proto.stop_reason),
        retire_reason=words.RETIRE_REASON.read_optional(proto.retire_reason),
    )


def lease_event(proto: registry_pb2.WatchLeasesResponse) -> types.LeaseEvent:
    return types.LeaseEvent(
        kind=words.LEASE_EVENT_KIND.read(proto.event),
        lease=lease(proto.lease) if proto.HasField("lease") else None,
    )


def renewal(proto: registry_pb2.RenewResult) -> types.Renewal:
    return types.Renewal(
        status=words.RENEW_STATUS.read(proto.status), remaining=seconds(proto.remaining), leases=proto.leases
    )


def engine(proto: registry_pb2.EngineStatus) -> types.Engine:
    told = proto.engine
    return types.Engine(
        ref=engine_ref(told.ref),
        role=words.ENGINE_ROLE.read(told.role),
        models=tuple(told.models),
        http_url=told.http_url,
        data_parallel_rank=told.data_parallel_rank,
        data_parallel_size=max(1, told.data_parallel_size),
        vllm_version=told.vllm_version,
        kv_layout=told.kv_layout,
        block_size=told.block_size,
        total_blocks=told.total_blocks,
        digest_key_id=told.digest_key_id,
        bidirectional=told.bidirectional,
        connector_version=told.connector_version,
        healthy=proto.healthy,
        draining=proto.draining,
        silent=seconds(proto.silent),
        load=engine_load(proto.load),
        leases=proto.leases,
        leased_blocks=proto.leased_blocks,
        claimed_blocks=proto.claimed_blocks,
        retention_budget_blocks=proto.retention_budget_blocks,
        rival_http_url=proto.rival_http_url,
    )


def engine_load(proto: registry_pb2.EngineLoad) -> types.EngineLoad:
    return types.EngineLoad(
        running=proto.running,
        waiting=proto.waiting,
        free_blocks=proto.free_blocks,
        leased_blocks=proto.leased_blocks,
    )


def renewals(
    request: registry_pb2.RenewLeasesRequest, response: registry_pb2.RenewLeasesResponse
) -> list[types.Renewal]:
    """Reads one result per renewal, in order.

    Raises:
        Internal: The registry answered more or fewer.
    """
    asked, told = len(request.renewals), len(response.results)
    if asked != told:
        raise Internal(f"the registry answered {told} of {asked} renewals: its version does not fit this client's")
    return [renewal(result) for result in response.results]
