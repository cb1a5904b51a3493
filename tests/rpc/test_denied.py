"""What nobody may do, with its status: a registry and a router that trust nobody, and callers of every kind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvlease.client import aio, errors, sync, types
from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.client.security import Security
from kvlease.registry import service as registry_service
from kvlease.registry.settings import Settings as RegistrySettings
from kvlease.router import service as router_service
from kvlease.router.settings import Settings as RouterSettings
from kvlease.rpc import Protection, Role, Server
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2
from tests.registry import messages
from tests.support.credentials import keys_file, security, tls, token_of

TENANT = "a"
LIMITS = '[tenants."*"]\nrate = 1000'


def key() -> lease_pb2.ConversationKey:
    return lease_pb2.ConversationKey(tenant=TENANT, conversation_id="chat")


class Party:
    """A caller of both services."""

    def __init__(self, registry: str, router: str, shown: Security) -> None:
        self.registry = EngineRegistryClient(registry, security=shown)
        self.router = EngineRouterClient(router, security=shown)

    async def close(self) -> None:
        await self.registry.close()
        await self.router.close()

    async def open(self, engine_id: str) -> registry_pb2.SessionCredential:
        engine = messages.engine(engine_id)
        answer = await self.registry.open_session(registry_pb2.OpenSessionRequest(engine=engine))
        await self.registry.heartbeat(registry_pb2.HeartbeatRequest(credential=answer.credential))
        return answer.credential


class World:
    """Decode engine d0 holds a lease of tenant a's conversation; p0 is another engine."""

    d0: Party
    p0: Party
    a: Party
    b: Party
    operator: Party
    stranger: Party
    decode: registry_pb2.SessionCredential
    prefill: registry_pb2.SessionCredential

    async def granted(self) -> None:
        self.decode, self.prefill = await self.d0.open("d0"), await self.p0.open("p0")
        await self.d0.registry.grant_lease(messages.grant(self.decode, conversation=key()))


@asynccontextmanager
async def running(folder: Path, limits: str = LIMITS) -> AsyncIterator[World]:
    keys = keys_file(folder, limits=limits)
    made, world = RegistrySettings(), World()
    async with AsyncExitStack() as stack:
        leases = await stack.enter_async_context(registry_service.create(made))
        protection = Protection(tls=tls("registry"), keys_file=keys)
        registry = await stack.enter_async_context(Server("127.0.0.1:0", [leases], protection))
        settings = RouterSettings(registry=registry.address, security=security("router"), refresh=0.05, wait=5.0)
        routes = await stack.enter_async_context(router_service.create(settings))
        protection = Protection(tls=tls("router"), keys_file=keys)
        router = await stack.enter_async_context(Server("127.0.0.1:0", [routes], protection))
        application = security("application-a")
        for name, shown in {
            "d0": security("engine-d0"),
            "p0": security("engine-p0"),
            "a": application,
            "b": replace(application, token=token_of(Role.APPLICATION, "b")),
            "operator": security("operator"),
            "stranger": replace(application, token="of nobody"),  # noqa: S106
        }.items():
            party = Party(registry.address, router.address, shown)
            stack.push_async_callback(party.close)
            setattr(world, name, party)
        await world.granted()
        yield world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running(tmp_path) as found:
        yield found


async def routed(party: Party, request_id: str = "r1") -> router_pb2.RouteResponse:
    """Routes a turn, once the router has seen the engines."""
    request = router_pb2.RouteRequest(request_id=request_id, conversation_id="chat", model="m")
    while True:
        try:
            return await party.router.route(request, timeout=10)
        except (errors.NoEngine, errors.ModelNotFound):
            continue


async def refused(kind: type[errors.KvleaseError], call: Awaitable[Any]) -> None:
    with pytest.raises(errors.KvleaseError) as caught:
        await call
    assert type(caught.value) is kind


# -- who


async def test_a_stranger_is_unauthenticated_everywhere(world: World) -> None:
    await refused(errors.CredentialsWrong, world.stranger.registry.list_engines(registry_pb2.ListEnginesRequest()))
    await refused(errors.CredentialsWrong, world.stranger.router.route(router_pb2.RouteRequest()))


async def test_an_application_does_nothing_that_engines_routers_or_operators_do(world: World) -> None:
    to = world.a.registry
    for call in (
        to.open_session(registry_pb2.OpenSessionRequest(engine=messages.engine("d1"))),
        to.grant_lease(messages.grant(world.decode, "l2", conversation=key())),
        to.announce_leases(messages.announcement(world.decode, "l2")),
        to.claim_lease(messages.claim(world.prefill)),
        to.release_lease(registry_pb2.ReleaseLeaseRequest(credential=world.decode, lease_id="l1")),
        to.end_turn(messages.completed("t")),
        to.revoke_leases(registry_pb2.RevokeLeasesRequest(engine_id="d0")),
        world.a.router.publish_prefill(router_pb2.PublishPrefillRequest()),
        world.a.router.resolve_ticket(router_pb2.ResolveTicketRequest()),
    ):
        await refused(errors.RoleDenied, call)
    assert len((await to.list_leases(registry_pb2.ListLeasesRequest())).leases) == 1


async def test_an_engine_ends_and_revokes_nothing_of_others(world: World) -> None:
    to = world.p0.registry
    await refused(errors.RoleDenied, to.revoke_leases(registry_pb2.RevokeLeasesRequest(engine_id="d0")))
    await refused(errors.RoleDenied, to.end_conversation(registry_pb2.EndConversationRequest(conversation_id="chat")))
    await refused(errors.RoleDenied, to.list_leases(registry_pb2.ListLeasesRequest()))
    assert (await world.operator.registry.revoke_leases(registry_pb2.RevokeLeasesRequest(engine_id="d0"))).leases == 1


async def test_an_engine_ends_no_turn_but_tells_that_it_kept_nothing(world: World) -> None:
    to, told = world.d0.registry, messages.completed("t")
    await refused(errors.RoleDenied, to.end_turn(told))

    told.outcome = registry_pb2.TURN_OUTCOME_NOTHING_KEPT
    told.decode.CopyFrom(messages.engine("d0").ref)
    await refused(errors.RoleDenied, world.p0.registry.end_turn(told))
    await to.end_turn(told)


async def test_an_engine_that_impersonates_another_is_denied(world: World) -> None:
    turn = await routed(world.a)
    theirs, stolen = turn.decode.engine, registry_pb2.SessionCredential(session_id=world.decode.session_id)
    other = world.p0 if theirs.engine_id == "d0" else world.d0

    await refused(errors.RoleDenied, other.open(theirs.engine_id))
    resolve = router_pb2.ResolveTicketRequest(ticket=turn.ticket, engine=theirs)
    await refused(errors.RoleDenied, other.router.resolve_ticket(resolve))
    publish = router_pb2.PublishPrefillRequest(ticket=turn.ticket, engine=theirs, lease_id="l9")
    await refused(errors.RoleDenied, other.router.publish_prefill(publish))
    grant = messages.grant(stolen, "l2", conversation=key())
    await refused(errors.SessionSecretWrong, world.p0.registry.grant_lease(grant))


async def test_applications_show_their_certificate_from_threads_and_tasks(world: World) -> None:
    registry = world.a.registry.address

    def from_a_thread() -> list[types.Lease]:
        with sync.Client(registry=registry, security=security("application-a")) as client:
            return client.list_leases()

    async with aio.Client(registry=registry, security=security("application-a")) as client:
        assert [lease.lease_id for lease in await client.list_leases()] == ["l1"]
    assert [lease.lease_id for lease in await asyncio.to_thread(from_a_thread)] == ["l1"]


# -- another tenant's


async def test_another_tenants_lease_is_not_found(world: World) -> None:
    to = world.b.registry

    await refused(errors.LeaseNotFound, to.get_lease(registry_pb2.GetLeaseRequest(lease_id="l1")))
    assert not (await to.list_leases(registry_pb2.ListLeasesRequest())).leases
    ended = await to.end_conversation(registry_pb2.EndConversationRequest(conversation_id="chat"))
    assert ended.leases == 0
    renewals = [registry_pb2.LeaseRenewal(lease_id="l1"), registry_pb2.LeaseRenewal(conversation_id="chat")]
    renewed = await to.renew_leases(registry_pb2.RenewLeasesRequest(renewals=renewals))
    assert {each.status for each in renewed.results} == {registry_pb2.RENEW_STATUS_NOT_FOUND}
    assert (await world.a.registry.get_lease(registry_pb2.GetLeaseRequest(lease_id="l1"))).lease.lease_id == "l1"


async def test_another_tenants_leases_are_not_watched(world: World) -> None:
    seen = []
    for party in (world.b, world.a):
        events = party.registry.watch_leases(registry_pb2.WatchLeasesRequest(), timeout=60)
        async with aclosing(events):
            seen.append((await anext(events)).event)

    assert seen == [registry_pb2.LEASE_EVENT_SYNCED, registry_pb2.LEASE_EVENT_EXISTS]


async def test_another_tenants_turn_is_not_found(world: World) -> None:
    turn, to = await routed(world.a), world.b.router

    await refused(errors.TicketNotFound, to.get_ticket(router_pb2.GetTicketRequest(ticket_id=turn.ticket_id)))
    await refused(errors.TicketNotFound, to.complete_ticket(router_pb2.CompleteTicketRequest(ticket=turn.ticket)))
    await refused(errors.TicketNotFound, to.cancel_ticket(router_pb2.CancelTicketRequest(ticket=turn.ticket)))
    assert not (await to.list_tickets(router_pb2.ListTicketsRequest())).tickets
    await world.a.router.complete_ticket(router_pb2.CompleteTicketRequest(ticket=turn.ticket))


async def test_naming_another_tenant_is_denied(world: World) -> None:
    request = registry_pb2.ListLeasesRequest()

    await refused(errors.RoleDenied, world.b.registry.list_leases(request, tenant=TENANT))


# -- forged, replayed, too much


async def test_a_forged_ticket_is_refused(world: World) -> None:
    turn = await routed(world.a)
    head, terms, _ = turn.ticket.split(".")
    engine = turn.decode.engine
    party = world.d0 if engine.engine_id == "d0" else world.p0

    for ticket in ("", "kvt1.", f"{head}.{terms}.{'A' * 22}", turn.ticket[:-1], f"kvt2.{terms}.x"):
        resolve = router_pb2.ResolveTicketRequest(ticket=ticket, engine=engine)
        await refused(errors.TicketForged, party.router.resolve_ticket(resolve))
        complete = router_pb2.CompleteTicketRequest(ticket=ticket)
        await refused(errors.TicketForged, world.a.router.complete_ticket(complete))


async def test_a_handle_of_another_engine_is_refused(world: World) -> None:
    forged = messages.grant(world.prefill, "l2", conversation=key(), handle=messages.handle(engine_id="d0"))
    restarted = messages.handle(engine_id="p0")
    restarted.engine.incarnation = "i0"

    await refused(errors.IncarnationMismatch, world.p0.registry.grant_lease(forged))
    old = messages.grant(world.prefill, "l2", conversation=key(), handle=restarted)
    await refused(errors.IncarnationMismatch, world.p0.registry.grant_lease(old))


async def test_a_replayed_claim_gives_nothing_twice(world: World) -> None:
    asked: dict[str, Any] = {"branch": messages.branch("some text")}
    asked["branch"].conversation.CopyFrom(key())
    claim = messages.claim(world.prefill, **asked)

    first = await world.p0.registry.claim_lease(claim)
    again = await world.p0.registry.claim_lease(claim)
    assert first.lease.lease_id == again.lease.lease_id == "l1"
    await refused(errors.IdTaken, world.d0.registry.claim_lease(messages.claim(world.decode, **asked)))

    over = registry_pb2.FinishClaimRequest(
        credential=world.prefill, claim_id="c1", outcome=registry_pb2.READ_OUTCOME_USED
    )
    await world.p0.registry.finish_claim(over)
    renew = registry_pb2.RenewClaimRequest(credential=world.prefill, claim_id="c1")
    await refused(errors.ClaimLost, world.p0.registry.renew_claim(renew))


async def test_an_oversized_message_is_refused_and_the_next_one_served(world: World) -> None:
    request = registry_pb2.ListLeasesRequest(page_token="x" * (65 * 1024 * 1024))

    with pytest.raises(errors.ResourceExhausted):
        await world.a.registry.list_leases(request, timeout=60)
    await world.a.registry.list_leases(registry_pb2.ListLeasesRequest())


async def test_a_tenant_that_calls_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    async with running(tmp_path, "[tenants.b]\nrate = 0.1\nburst = 1\nrequest_bytes = 100") as world:
        await world.b.registry.list_leases(registry_pb2.ListLeasesRequest())
        with pytest.raises(errors.TenantLimit) as often:
            await world.b.registry.list_leases(registry_pb2.ListLeasesRequest())
        with pytest.raises(errors.TenantLimit) as long:
            await world.b.registry.list_leases(registry_pb2.ListLeasesRequest(page_token="1" * 200))
        await world.a.registry.list_leases(registry_pb2.ListLeasesRequest())

    assert often.value.retry_after is not None
    assert 0 < often.value.retry_after <= 10
    assert long.value.retry_after is None


async def test_bytes_that_are_no_message_are_malformed_for_those_who_may_call_only(world: World) -> None:
    method = "/kvlease.v1.RegistryService/GrantLease"
    codes = []
    for name in ("engine-d0", "application-a"):
        shown = security(name).read().credentials
        assert shown is not None
        async with grpc.aio.secure_channel(world.a.registry.address, shown) as channel:
            call: Any = channel.unary_unary(method)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(b"\xff\xff\xff", timeout=20)
            codes.append(caught.value.code())

    assert codes == [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED]
