"""All of it with certificates and keys: engines that are bound to their ids reuse what a tenant's conversation left."""

import dataclasses
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from structlog.testing import capture_logs

from kvlease.client.aio import Client
from kvlease.client.types import LeaseKind
from kvlease.connector.settings import Settings as ConnectorSettings
from kvlease.gateway import service as gateway
from kvlease.gateway.settings import Settings as GatewaySettings
from kvlease.registry import service as registry
from kvlease.registry.rules import Rules
from kvlease.registry.settings import Settings as RegistrySettings
from kvlease.router import service as router
from kvlease.router.settings import Settings as RouterSettings
from kvlease.rpc import Protection, Role, Server
from kvlease.sim.fleet import Fleet
from kvlease.sim.settings import Settings
from tests.sim.stack import QUICK, Stack, answers, engine, routes_to, until
from tests.sim.test_reuse import Talk, nothing_wrong, reuses
from tests.support.credentials import certificates, keys_file, security, tls, token_of


def secured(role: str, name: str, registry_at: str, router_at: str) -> Settings:
    """An engine that shows the certificate of the engine *name*, as its environment says."""
    shown = security(f"engine-{name}")
    environment = {
        "KVLEASE_REGISTRY": registry_at,
        "KVLEASE_ROUTER": router_at,
        "KVLEASE_ENGINE_ID": name,
        "KVLEASE_WAIT": "2s",
        "KVLEASE_CA": str(shown.ca),
        "KVLEASE_CERT": str(shown.cert),
        "KVLEASE_KEY": str(shown.key),
    }
    plane = ConnectorSettings.of({"bidirectional_kv_xfer": True}, environment)
    return engine(role, connector=plane, prefix_caching=role == "decode")


@asynccontextmanager
async def running(keys: Path) -> AsyncIterator[tuple[Stack, Server]]:
    """Gives the stack and its registry; the stack's client is tenant a's."""
    async with (
        registry.create(RegistrySettings(rules=Rules(timing=QUICK))) as leases,
        Server("127.0.0.1:0", [leases], Protection(tls=tls("registry"))) as leasing,
        router.create(
            RouterSettings(registry=leasing.address, refresh=0.05, wait=2.0, security=security("router"))
        ) as routes,
        Server("127.0.0.1:0", [routes], Protection(tls=tls("router"))) as routing,
    ):
        engines = [
            secured("prefill", "p0", leasing.address, routing.address),
            secured("decode", "d0", leasing.address, routing.address),
        ]
        settings = GatewaySettings(
            listen="127.0.0.1:0",
            router=routing.address,
            registry=leasing.address,
            wait=2.0,
            grace=0.2,
            protection=Protection(tls=tls("gateway", mutual=False), keys_file=keys),
            security=security("gateway"),
        )
        trust = ssl.create_default_context(cafile=certificates() / "ca.pem")
        headers = {"authorization": f"Bearer {token_of(Role.APPLICATION, 'a')}"}
        http = aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=trust))
        async with Fleet(engines) as fleet, gateway.create(settings) as front, http:
            await until(lambda: all(instance.engine.connector.link.connected for instance in fleet.instances))
            stack = Stack(fleet, front.url, http, routing.address)
            await answers(stack)
            await routes_to(routing.address, security=security("application-a"))
            yield stack, leasing


async def test_a_conversation_is_reused(tmp_path: Path) -> None:
    async with running(keys_file(tmp_path)) as (stack, leasing):
        talk = Talk(stack, "c")
        await talk.say("Hello?")
        assert await reuses(talk)
        assert nothing_wrong(stack)

        leases = {}
        for tenant in ("a", "b", ""):
            async with Client(registry=leasing.address, tenant=tenant, security=security("operator")) as operator:
                leases[tenant] = {lease.engine.engine_id for lease in await operator.list_leases(kind=LeaseKind.DECODE)}

    assert leases == {"a": {"d0"}, "b": set(), "": set()}


async def test_an_engine_that_is_not_who_it_says_is_not_registered(tmp_path: Path) -> None:
    async with running(keys_file(tmp_path)) as (_, leasing):
        shown = secured("decode", "d0", leasing.address, "127.0.0.1:1").connector
        plane = dataclasses.replace(shown, engine_id="p0")
        with capture_logs() as lines:
            async with Fleet([engine("decode", connector=plane)]) as fleet:
                await until(lambda: any(line.get("reason") == "ROLE_DENIED" for line in lines))
                assert not fleet.instances[0].engine.connector.link.connected
