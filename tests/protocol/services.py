"""The registry and the router as processes: the real services, on pretended clocks and calls."""

import asyncio
from itertools import count

from kvlease.client.engine import EngineRegistryClient
from kvlease.registry.ledger import Ledger
from kvlease.registry.memory import MemoryStore
from kvlease.registry.rules import Rules
from kvlease.registry.service import serve
from kvlease.registry.value import Value
from kvlease.router import service as router_service
from kvlease.router.registry_client import RegistryClient
from kvlease.router.settings import Settings
from tests.protocol.calls import Hosts, Server
from tests.protocol.timeline import Process

REGISTRY, ROUTER = "registry", "router"
TICKET_KEY = b"the key of all routers"


class Registry:
    """One life of the registry: it begins empty."""

    def __init__(self, process: Process, hosts: Hosts, rules: Rules, value: Value, names: "count[int]") -> None:
        self._store = MemoryStore(
            rules,
            clock=process.clock,
            sleep=asyncio.sleep,
            token=lambda: f"t{next(names)}",
            value=value,
            watch_limit=1,
        )
        self.process = process
        self.server = hosts.servers[REGISTRY] = Server(process, hosts.network, serve(self._store, rules.timing))
        process.loop.create_task(self._store.run())

    @property
    def ledger(self) -> Ledger:
        """All that it knows."""
        return self._store._ledger


class Router:
    """A router that is shown the tickets of another one with the same key."""

    def __init__(self, process: Process, hosts: Hosts) -> None:
        registry = RegistryClient(hosts.client(EngineRegistryClient, process, REGISTRY))
        settings = Settings(ticket_key=TICKET_KEY)
        service, _ = router_service.assemble(settings, registry, clock=process.clock)
        self.process = process
        self.server = hosts.servers[ROUTER] = Server(process, hosts.network, service)
