"""The router in front of the real registry."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.client.errors import PrefillFailed
from kvlease.registry import service as registry_service
from kvlease.registry.settings import Settings as RegistrySettings
from kvlease.router import service as router_service
from kvlease.router.settings import Settings
from kvlease.rpc import Server
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2

REPORT = lease_pb2.PrefillReport(prompt_tokens=32, computed_tokens=32)


class World:
    """Both services, and the sessions of one prefill and one decode engine."""

    def __init__(self, registry: EngineRegistryClient, router: EngineRouterClient) -> None:
        self.registry = registry
        self.router = router
        self.credentials: dict[str, registry_pb2.SessionCredential] = {}

    async def open(self, name: str, role: registry_pb2.EngineRole.ValueType) -> None:
        engine = registry_pb2.Engine(
            ref=lease_pb2.EngineRef(engine_id=name, incarnation="1"),
            role=role,
            models=["m"],
            http_url=f"http://{name}:8000",
            vllm_version="0.29.0",
            kv_layout="l",
            block_size=16,
            total_blocks=100,
            digest_key_id="k",
            bidirectional=True,
        )
        opened = await self.registry.open_session(registry_pb2.OpenSessionRequest(engine=engine))
        self.credentials[name] = opened.credential
        load = registry_pb2.EngineLoad(free_blocks=100)
        await self.registry.heartbeat(registry_pb2.HeartbeatRequest(credential=opened.credential, load=load))

    async def grant(
        self, turn: router_pb2.RouteResponse, name: str, kind: lease_pb2.LeaseKind.ValueType, conversation_id: str = "c"
    ) -> None:
        chain = lease_pb2.PrefixChain(key_id="k", stride=16, digests=b"12345678" * 2)
        request = registry_pb2.GrantLeaseRequest(
            credential=self.credentials[name],
            lease_id=f"{turn.ticket_id}-{name}",
            kind=kind,
            conversation=lease_pb2.ConversationKey(tenant="default", conversation_id=conversation_id),
            ticket_id=turn.ticket_id,
            handle=lease_pb2.Handle(
                engine=lease_pb2.EngineRef(engine_id=name, incarnation="1"),
                request_id="r",
                token_count=32,
                block_count=2,
                chain=chain,
                body_format="nixl/1",
            ),
            report=REPORT if kind == lease_pb2.LEASE_KIND_PREFILL else None,
        )
        await self.registry.grant_lease(request)

    async def route(self, request_id: str, conversation_id: str = "c") -> router_pb2.RouteResponse:
        request = router_pb2.RouteRequest(request_id=request_id, conversation_id=conversation_id, model="m")
        return await self.router.route(request)


@asynccontextmanager
async def a_world() -> AsyncIterator[World]:
    async with (
        registry_service.create(RegistrySettings()) as registering,
        Server("127.0.0.1:0", [registering]) as registry,
        router_service.create(Settings(registry=registry.address)) as routing,
        Server("127.0.0.1:0", [routing]) as router,
    ):
        world = World(EngineRegistryClient(registry.address), EngineRouterClient(router.address))
        try:
            await world.open("p", registry_pb2.ENGINE_ROLE_PREFILL)
            await world.open("d", registry_pb2.ENGINE_ROLE_DECODE)
            yield world
        finally:
            await world.registry.close()
            await world.router.close()


async def test_what_a_turn_leaves_is_found_by_the_next() -> None:
    async with a_world() as world:
        first = await world.route("r1")
        await world.grant(first, "p", lease_pb2.LEASE_KIND_PREFILL)
        await world.grant(first, "d", lease_pb2.LEASE_KIND_DECODE)
        done = await world.router.complete_ticket(router_pb2.CompleteTicketRequest(ticket=first.ticket))

        second = await world.route("r2")

    assert done.report == REPORT
    assert (first.leased_tokens, second.leased_tokens) == (0, 32)
    assert second.mode == router_pb2.ROUTE_MODE_PREFILL_DECODE


@pytest.mark.parametrize("conversation_id", ["c", ""])
async def test_a_cancelled_prefill_leg_reaches_decode(conversation_id: str) -> None:
    async with a_world() as world:
        turn = await world.route("r1", conversation_id)
        leg = router_pb2.CancelTicketRequest(ticket=turn.ticket, leg=router_pb2.LEG_PREFILL)
        await world.router.cancel_ticket(leg)

        claim = registry_pb2.ClaimLeaseRequest(
            credential=world.credentials["d"], claim_id="c1", prefill_ticket_id=turn.ticket_id
        )
        claim.wait.FromSeconds(30)
        with pytest.raises(PrefillFailed):
            await world.registry.claim_lease(claim)


async def test_a_turn_without_a_conversation_leaves_nothing() -> None:
    async with a_world() as world:
        turn = await world.route("r1", "")
        await world.grant(turn, "p", lease_pb2.LEASE_KIND_PREFILL, "")
        done = await world.router.complete_ticket(router_pb2.CompleteTicketRequest(ticket=turn.ticket))

        assert done.report == REPORT
        assert not (await world.registry.list_leases(registry_pb2.ListLeasesRequest())).leases
