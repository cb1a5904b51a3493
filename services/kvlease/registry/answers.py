"""Values of the domain as messages. Lengths are rounded down: nothing is promised longer on its way."""

from collections.abc import Sequence

from kvlease.registry.announcements import Announcement
from kvlease.registry.claims import Claimed
from kvlease.registry.feed import Happened
from kvlease.registry.grants import Granted
from kvlease.registry.lease import Handle, Reason
from kvlease.registry.lists import Branch, EngineShown, Page
from kvlease.registry.renewals import Renewed
from kvlease.registry.rules import DRIFT, Timing
from kvlease.registry.sessions import Answer, Opened
from kvlease.registry.shown import Shown
from kvlease.rpc.errors import duration, write
from kvlease.v1 import lease_pb2, registry_pb2


def opened(given: Opened, timing: Timing) -> registry_pb2.OpenSessionResponse:
    """Tells of a new session, and the times to keep to."""
    return registry_pb2.OpenSessionResponse(
        credential=registry_pb2.SessionCredential(
            session_id=given.credential.session_id, session_secret=given.credential.secret
        ),
        boot_id=given.boot_id,
        timing=registry_pb2.Timing(
            heartbeat_interval=duration(timing.heartbeat),
            hold=duration(timing.hold),
            claim=duration(timing.claim),
            margin=duration(timing.margin),
        ),
        retention_budget_blocks=given.budget,
    )


def heartbeat(given: Answer) -> registry_pb2.HeartbeatResponse:
    """Tells an owner what to do."""
    response = registry_pb2.HeartbeatResponse(number=given.number, boot_id=given.boot_id)
    for lease_id, reason in given.free:
        response.orders.add(lease_id=lease_id, free=registry_pb2.FreeOrder(reason=_reason(reason)))
    for lease_id, remaining in given.remaining:
        write(remaining, response.orders.add(lease_id=lease_id).remaining)
    return response


def announced(given: Sequence[Announcement]) -> registry_pb2.AnnounceLeasesResponse:
    """Tells an owner what to keep."""
    response = registry_pb2.AnnounceLeasesResponse()
    for x in given:
        status = registry_pb2.ANNOUNCE_STATUS_KEPT if x.kept else registry_pb2.ANNOUNCE_STATUS_OVER
        response.results.add(lease_id=x.lease_id, status=status, generation=x.generation)
    return response


def granted(given: Granted) -> registry_pb2.GrantLeaseResponse:
    """Tells of a granted lease."""
    response = registry_pb2.GrantLeaseResponse(generation=given.generation)
    write(given.remaining, response.remaining)
    return response


def renewed(given: Sequence[Renewed]) -> registry_pb2.RenewLeasesResponse:
    """Tells what became of renewals."""
    response = registry_pb2.RenewLeasesResponse()
    for x in given:
        result = response.results.add(status=registry_pb2.RenewStatus.ValueType(x.outcome), leases=x.leases)
        write(x.remaining, result.remaining)
    return response


def claimed(given: Claimed) -> registry_pb2.ClaimLeaseResponse:
    """Gives a claim with the whole lease."""
    response = registry_pb2.ClaimLeaseResponse(matched_tokens=given.matched_tokens)
    write(_told(given.ttl), response.ttl)
    _tell(given.lease, registry_pb2.LEASE_VIEW_FULL, response.lease)
    return response


def renewed_claim(ttl: float) -> registry_pb2.RenewClaimResponse:
    """Gives a claim more time."""
    return registry_pb2.RenewClaimResponse(ttl=duration(_told(ttl)))


def page(given: Page, view: registry_pb2.LeaseView.ValueType) -> registry_pb2.ListLeasesResponse:
    """Gives a page of leases."""
    token = str(given.next_after) if given.next_after else ""
    return registry_pb2.ListLeasesResponse(leases=[lease(x, view) for x in given.leases], next_page_token=token)


def located(given: Sequence[Sequence[Branch]]) -> registry_pb2.LocateConversationsResponse:
    """Tells where conversations are held."""
    response = registry_pb2.LocateConversationsResponse()
    for branches in given:
        found = response.located.add()
        for (engine_id, incarnation), tokens, generation in branches:
            added = found.branches.add(token_count=tokens, generation=generation)
            added.holder.engine_id, added.holder.incarnation = engine_id, incarnation
    return response


def happened(given: Happened) -> registry_pb2.WatchLeasesResponse:
    """Tells of an event."""
    event = registry_pb2.LeaseEvent.ValueType(given.event)
    if given.lease is None:
        return registry_pb2.WatchLeasesResponse(event=event)
    return registry_pb2.WatchLeasesResponse(event=event, lease=lease(given.lease, registry_pb2.LEASE_VIEW_BASIC))


def lease(given: Shown, view: registry_pb2.LeaseView.ValueType) -> lease_pb2.Lease:
    """Gives a lease; without digests and body unless in full view."""
    told = lease_pb2.Lease()
    _tell(given, view, told)
    return told


def _tell(given: Shown, view: registry_pb2.LeaseView.ValueType, into: lease_pb2.Lease) -> None:
    """Gives a lease as part of an answer: what is made elsewhere would be copied there, handle and all."""
    terms = given.terms
    into.lease_id = terms.lease_id
    into.kind = lease_pb2.LeaseKind.ValueType(terms.kind)
    into.state = lease_pb2.LeaseState.ValueType(given.state)
    into.conversation.tenant, into.conversation.conversation_id = terms.conversation
    into.generation = given.generation
    into.parent_lease_id = terms.parent_lease_id
    into.ticket_id = terms.ticket_id
    _tell_handle(terms.handle, into.handle, whole=view == registry_pb2.LEASE_VIEW_FULL)
    write(given.remaining, into.remaining)
    write(given.age, into.age)
    write(given.idle, into.idle)
    into.claims = given.claims
    into.stop_reason = lease_pb2.StopReason.ValueType(given.stop_reason)
    into.retire_reason = _reason(given.reason)


def engine(given: EngineShown, rival: str) -> registry_pb2.EngineStatus:
    """Gives an engine and its session, and where its rival serves, if it has one."""
    return registry_pb2.EngineStatus(
        engine=registry_pb2.Engine.FromString(given.engine.profile),
        load=registry_pb2.EngineLoad.FromString(given.load),
        healthy=given.healthy,
        draining=given.draining,
        silent=duration(given.silent),
        leases=given.leases,
        leased_blocks=given.leased_blocks,
        claimed_blocks=given.claimed_blocks,
        retention_budget_blocks=given.budget,
        rival_http_url=rival,
    )


def handle(given: Handle, *, whole: bool) -> lease_pb2.Handle:
    """Gives a handle, without digests and body unless it is wanted whole."""
    told = lease_pb2.Handle()
    _tell_handle(given, told, whole=whole)
    return told


def _tell_handle(given: Handle, into: lease_pb2.Handle, *, whole: bool) -> None:
    chain, told = given.chain, into.chain
    into.engine.engine_id, into.engine.incarnation = given.engine
    into.request_id = given.request_id
    into.token_count = chain.tokens
    into.block_count = given.block_count
    told.key_id, told.stride = chain.key_id, chain.stride
    into.body_format = given.body_format
    if whole:
        told.digests = chain.digests
        into.body = given.body


def _told(ttl: float) -> float:
    """How long a reader is to count on its claim: its clock may be slower than the one that ends it."""
    return ttl * (1 - DRIFT)


def _reason(given: Reason) -> lease_pb2.RetireReason.ValueType:
    return lease_pb2.RetireReason.ValueType(given)
