"""A registry behind gRPC, as far as a router asks it, and a router in front of it."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from kvlease.client.engine import EngineRouterClient
from kvlease.router.engine import EngineKey
from kvlease.router.service import create
from kvlease.router.settings import Settings
from kvlease.rpc import Server, Service
from kvlease.v1 import lease_pb2, registry_pb2
from tests.support.servers import a_service

SETTINGS = Settings(listen="127.0.0.1:0", ticket_key=b"k" * 32)


class RegistryServer:
    """Knows what the test tells it. While `frozen` is set it takes calls and does not answer."""

    def __init__(self) -> None:
        self.engines: list[registry_pb2.EngineStatus] = []
        self.branches: defaultdict[tuple[str, str], list[registry_pb2.Branch]] = defaultdict(list)
        self.ended: list[registry_pb2.EndTurnRequest] = []
        self.report: lease_pb2.PrefillReport | None = None
        self.frozen: asyncio.Event | None = None

    def add_engine(self, name: str, role: registry_pb2.EngineRole.ValueType, model: str = "m") -> EngineKey:
        ref = lease_pb2.EngineRef(engine_id=name, incarnation=f"{name}-1")
        engine = registry_pb2.Engine(
            ref=ref,
            role=role,
            models=[model],
            http_url=f"http://{name}:8000",
            vllm_version="0.29.0",
            bidirectional=True,
        )
        self.engines.append(registry_pb2.EngineStatus(engine=engine, healthy=True))
        return EngineKey(ref.engine_id, ref.incarnation)

    def grant(self, conversation_id: str, holder: EngineKey, tokens: int, tenant: str = "default") -> None:
        held = self.branches[tenant, conversation_id]
        ref = lease_pb2.EngineRef(**holder._asdict())
        held[:] = [registry_pb2.Branch(holder=ref, token_count=tokens, generation=len(held) + 1)]

    def service(self) -> Service:
        return a_service(
            "kvlease.v1.RegistryService",
            {
                "ListEngines": (self._list_engines, registry_pb2.ListEnginesRequest),
                "LocateConversations": (self._locate, registry_pb2.LocateConversationsRequest),
                "EndTurn": (self._end_turn, registry_pb2.EndTurnRequest),
            },
        )

    async def _list_engines(self, *_: Any) -> registry_pb2.ListEnginesResponse:
        await self._thaw()
        return registry_pb2.ListEnginesResponse(engines=self.engines)

    async def _locate(
        self, request: registry_pb2.LocateConversationsRequest, _context: Any
    ) -> registry_pb2.LocateConversationsResponse:
        await self._thaw()
        found = [self.branches[key.tenant, key.conversation_id] for key in request.conversations]
        return registry_pb2.LocateConversationsResponse(located=[registry_pb2.Located(branches=x) for x in found])

    async def _end_turn(self, request: registry_pb2.EndTurnRequest, _context: Any) -> registry_pb2.EndTurnResponse:
        await self._thaw()
        self.ended.append(request)
        return registry_pb2.EndTurnResponse(report=self.report)

    async def _thaw(self) -> None:
        if self.frozen:
            await self.frozen.wait()


class Routed(NamedTuple):
    """A router in front of a registry; 1P2D."""

    client: EngineRouterClient
    router: Server
    registry: RegistryServer
    registry_server: Server


@asynccontextmanager
async def routed(settings: Settings = SETTINGS) -> AsyncIterator[Routed]:
    """Serves both on ports of their own."""
    registry = RegistryServer()
    registry.add_engine("p0", registry_pb2.ENGINE_ROLE_PREFILL)
    registry.add_engine("d0", registry_pb2.ENGINE_ROLE_DECODE)
    registry.add_engine("d1", registry_pb2.ENGINE_ROLE_DECODE)
    async with (
        Server("127.0.0.1:0", [registry.service()]) as registry_server,
        create(replace(settings, registry=registry_server.address)) as service,
        Server(settings.listen, [service]) as router,
    ):
        client = EngineRouterClient(router.address)
        try:
            yield Routed(client, router, registry, registry_server)
        finally:
            await client.close()
