"""Puts a registry together, for its own process or for one with other services."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

import grpc
import structlog

from kvlease.registry.memory import MemoryStore
from kvlease.registry.rules import Timing
from kvlease.registry.servicer import RegistryServicer
from kvlease.registry.settings import Settings
from kvlease.registry.statuses import STATUSES
from kvlease.registry.store import Store
from kvlease.registry.value import LeastRecentlyRenewed, LikelyReturn, Value
from kvlease.rpc import Draining, Service
from kvlease.v1.registry_pb2_grpc import add_RegistryServiceServicer_to_server

log = structlog.get_logger()

NAME = "kvlease.v1.RegistryService"
TOKEN_BYTES = 16
VALUES: Mapping[str, Callable[[], Value]] = MappingProxyType({"recent": LeastRecentlyRenewed, "return": LikelyReturn})


@asynccontextmanager
async def create(settings: Settings) -> AsyncIterator[Service]:
    """Gives the registry service over a store in memory, and lets its time pass until left."""
    store = MemoryStore(
        settings.rules,
        clock=time.monotonic,
        sleep=asyncio.sleep,
        token=lambda: secrets.token_hex(TOKEN_BYTES),
        value=VALUES[settings.value](),
        watch_limit=settings.watch_limit,
    )
    running = asyncio.create_task(store.run())
    running.add_done_callback(_tell)
    try:
        yield serve(store, settings.rules.timing)
    finally:
        running.cancel()
        await asyncio.wait([running])


def _tell(running: asyncio.Task[None]) -> None:
    """Tells if time stopped passing by a fault; calls still bring the registry up to now."""
    if not running.cancelled() and running.exception():
        log.error("time passes with calls only", exc_info=running.exception())


def serve(store: Store, timing: Timing) -> Service:
    """Gives the registry service over any store."""
    servicer = RegistryServicer(store, timing)

    def register(server: grpc.aio.Server) -> None:
        add_RegistryServiceServicer_to_server(servicer, server)

    return Service(NAME, register, STATUSES, drain=lambda: store.stop_waiting(Draining))
