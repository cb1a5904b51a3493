"""The clients against the real registry and the real router, with an engine moved by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from kvlease.client import aio, sync, types
from kvlease.client.engine import EngineRegistryClient
from kvlease.client.errors import ClaimLost, LeaseNotFound, ModelNotFound, SessionNotFound, TicketForged
from kvlease.registry import service as registry_service
from kvlease.registry.settings import Settings as RegistrySettings
from kvlease.router import service as router_service
from kvlease.router.settings import Settings as RouterSettings
from kvlease.rpc import Server
from kvlease.v1 import lease_pb2, registry_pb2

T = TypeVar("T")
TOKENS = 64
LOAD = registry_pb2.EngineLoad(free_blocks=100)


@dataclass
class Engine:
    """An engine that only does what it is told."""

    client: EngineRegistryClient
    ref: lease_pb2.EngineRef
    role: "registry_pb2.EngineRole.ValueType"
    credential: registry_pb2.SessionCredential = field(default_factory=registry_pb2.SessionCredential)
    received: int = 0

    async def open(self) -> None:
        told = registry_pb2.Engine(
            ref=self.ref,
            role=self.role,
            models=["model"],
            http_url=f"http://{self.ref.engine_id}:8000",
            kv_layout="layout",
            block_size=16,
            total_blocks=100,
            vllm_version="0.29.0",
            digest_key_id="key",
            bidirectional=True,
        )
        opened = await self.client.open_session(registry_pb2.OpenSessionRequest(engine=told))
        self.credential = opened.credential
        await self.beat()

    async def beat(self) -> None:
        beat = registry_pb2.HeartbeatRequest(credential=self.credential, received_number=self.received, load=LOAD)
        self.received = (await self.client.heartbeat(beat)).number

    async def grant(self, lease_id: str, terms: types.TicketTerms) -> None:
        chain = lease_pb2.PrefixChain(key_id="key", stride=16, digests=b"12345678" * (TOKENS // 16))
        handle = lease_pb2.Handle(
            engine=self.ref, request_id="r", token_count=TOKENS, block_count=4, chain=chain, body_format="nixl/1"
        )
        key = lease_pb2.ConversationKey(tenant=terms.tenant, conversation_id=terms.conversation_id)
        await self.client.grant_lease(
            registry_pb2.GrantLeaseRequest(
                credential=self.credential,
                lease_id=lease_id,
                kind=lease_pb2.LEASE_KIND_DECODE,
                conversation=key,
                ticket_id=terms.ticket_id,
                handle=handle,
            )
        )


@dataclass
class World:
    registry: str
    router: str
    decode: Engine


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A registry and a router on free ports, and one engine for each half of a turn."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        registry = await enter(registry_service.create(RegistrySettings(listen="127.0.0.1:0")))
        leases = await enter(Server("127.0.0.1:0", [registry]))
        client = EngineRegistryClient(leases.address)
        stack.push_async_callback(client.close)
        decode = Engine(client, lease_pb2.EngineRef(engine_id="d", incarnation="1"), registry_pb2.ENGINE_ROLE_DECODE)
        prefill = Engine(client, lease_pb2.EngineRef(engine_id="p", incarnation="1"), registry_pb2.ENGINE_ROLE_PREFILL)
        await decode.open()
        await prefill.open()
        routing = await enter(router_service.create(RouterSettings(listen="127.0.0.1:0", registry=leases.address)))
        routes = await enter(Server("127.0.0.1:0", [routing]))
        yield World(leases.address, routes.address, decode)


@pytest.fixture
async def client(world: World) -> AsyncIterator[aio.Client]:
    async with aio.Client(registry=world.registry, router=world.router) as client:
        yield client


async def answered(client: aio.Client, world: World, lease_id: str) -> types.Turn:
    """Serves one turn of conversation c, as far as the control plane sees it."""
    turn = await client.route("model", conversation_id="c", prompt_tokens=TOKENS)
    resolved = await client.resolve(turn.ticket, turn.decode.engine)
    await client.complete(turn.ticket, stop_reason=types.StopReason.ANSWERED)
    await world.decode.grant(lease_id, resolved.terms)
    return turn


async def test_a_turn_leaves_a_lease_that_the_next_one_is_routed_to(client: aio.Client, world: World) -> None:
    first = await answered(client, world, "lease-1")
    second = await client.route("model", conversation_id="c", prompt_tokens=2 * TOKENS)

    (lease,) = await client.list_leases(conversation_id="c")
    assert (lease.lease_id, lease.engine.engine_id, lease.tokens, lease.blocks) == ("lease-1", "d", TOKENS, 4)
    assert (first.mode, first.leased_tokens) == (types.RouteMode.PREFILL_DECODE, 0)
    assert (second.decode.engine.engine_id, second.leased_tokens) == ("d", TOKENS)
    assert [ticket.terms.ticket_id for ticket in await client.list_tickets()] == [second.ticket_id, first.ticket_id]
    assert (await client.get_ticket(first.ticket_id)).state is types.TicketState.COMPLETED


async def test_engines_are_as_they_said(client: aio.Client) -> None:
    decode, prefill = await client.list_engines()

    assert (decode.ref.engine_id, prefill.ref.engine_id) == ("d", "p")
    assert (decode.role, decode.healthy, decode.load.free_blocks) == (types.EngineRole.DECODE, True, 100)


async def test_a_conversation_is_held_renewed_and_ended(client: aio.Client, world: World) -> None:
    await answered(client, world, "lease-1")

    async with client.conversation("c", ttl=300.0, end_on_exit=True) as conversation:
        assert conversation.held
        assert (await client.get_lease("lease-1")).remaining > 200.0

    assert await client.list_leases(conversation_id="c") == []


async def test_an_engine_that_will_sleep_is_made_to_let_go(client: aio.Client, world: World) -> None:
    await answered(client, world, "lease-1")

    assert await client.revoke(world.decode.ref.engine_id) == 1
    assert await client.list_leases() == []
    assert await client.revoke(world.decode.ref.engine_id) == 0


async def test_renewals_are_answered_one_by_one(client: aio.Client, world: World) -> None:
    await answered(client, world, "lease-1")

    known, unknown = await client.renew("c", "none", ttl=100.0)

    assert (known.status, known.leases) == (types.RenewStatus.RENEWED, 1)
    assert unknown.status is types.RenewStatus.NOT_FOUND


async def test_a_watch_tells_of_grants_and_ends(client: aio.Client, world: World) -> None:
    async with aclosing(client.watch_leases(conversation_id="c")) as events:
        assert (await anext(events)).kind is types.LeaseEventKind.SYNCED
        await answered(client, world, "lease-1")
        granted = await anext(events)
        await client.end("c")
        retired = await anext(events)

    assert (granted.kind, granted.lease and granted.lease.lease_id) == (types.LeaseEventKind.GRANTED, "lease-1")
    assert retired.lease is not None
    assert retired.lease.retire_reason is types.RetireReason.ENDED


async def test_refusals_come_as_they_are_documented(client: aio.Client, world: World) -> None:
    turn = await client.route("model")

    with pytest.raises(ModelNotFound):
        await client.route("other")
    with pytest.raises(LeaseNotFound):
        await client.get_lease("none")
    with pytest.raises(TicketForged):
        await client.complete(turn.ticket[:-1] + ("A" if turn.ticket[-1] != "A" else "B"))
    with pytest.raises(SessionNotFound):
        await world.decode.client.heartbeat(registry_pb2.HeartbeatRequest())
    with pytest.raises(ClaimLost):
        await world.decode.client.renew_claim(
            registry_pb2.RenewClaimRequest(credential=world.decode.credential, claim_id="none")
        )


async def test_another_tenants_lease_is_not_there(client: aio.Client, world: World) -> None:
    await answered(client, world, "lease-1")

    async with aio.Client(registry=world.registry, router=world.router, tenant="other") as other:
        assert await other.list_leases() == []
        assert await other.end("c") == 0
        with pytest.raises(LeaseNotFound):
            await other.get_lease("lease-1")

    assert len(await client.list_leases()) == 1


async def test_the_client_for_threads_sees_the_same(client: aio.Client, world: World) -> None:
    await answered(client, world, "lease-1")

    def look(call: Callable[[sync.Client], T]) -> "asyncio.Future[T]":
        return asyncio.ensure_future(asyncio.to_thread(call, threads))

    with sync.Client(registry=world.registry, router=world.router) as threads:
        engines = await look(lambda c: c.list_engines())
        (lease,) = await look(lambda c: c.list_leases(conversation_id="c"))
        turn = await look(lambda c: c.route("model", conversation_id="c"))
        ended = await look(lambda c: c.end("c"))

    assert [engine.ref.engine_id for engine in engines] == ["d", "p"]
    assert lease.lease_id == "lease-1"
    assert turn.leased_tokens == TOKENS
    assert ended == 1
