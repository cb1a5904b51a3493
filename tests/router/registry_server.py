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
from kvlease.rpc import Server, Service, trusting
from kvlease.v1 import lease_pb2, registry_pb2
from tests.support.servers import a_service

SETTINGS = Settings(listen="127.0.0.1:0", ticket_key=b"k" * 32)


class RegistryServer:
    """Knows what the test tells it. While `frozen` is set it takes calls and does not answer."""

    def __init__(self) -> None:
        self.engines: list[registry_pb2.EngineStatus] = []
        self.leases: defaultdict[tuple[str, str], list[lease_pb2.Lease]] = defaultdict(list)
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
        held = self.leases[tenant, conversation_id]
        handle = lease_pb2.Handle(engine=lease_pb2.EngineRef(**holder._asdict()), token_count=tokens)
        held[:] = [lease_pb2.Lease(handle=handle, generation=len(held) + 1)]

    def service(self) -> Service:
        return a_service(
            "kvlease.v1.RegistryService",
            {
                "ListEngines": (self._list_engines, registry_pb2.ListEnginesRequest),
                "ListLeases": (self._list_leases, registry_pb2.ListLeasesRequest),
                "EndTurn": (self._end_turn, registry_pb2.EndTurnRequest),
            },
        )

    async def _list_engines(self, *_: Any) -> registry_pb2.ListEnginesResponse:
        await self._thaw()
        return registry_pb2.ListEnginesResponse(engines=self.engines)

    async def _list_leases(
        self, request: registry_pb2.ListLeasesRequest, context: Any
    ) -> registry_pb2.ListLeasesResponse:
        await self._thaw()
        found = self.leases[trusting(context).tenant, request.filter.conversation_id]
        return registry_pb2.ListLeasesResponse(leases=found)

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
