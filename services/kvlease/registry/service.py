"""Puts a registry together, for its own process or for one with other services."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import grpc
import structlog
from prometheus_client import CollectorRegistry

from kvlease.registry import stores
from kvlease.registry.metrics import Metrics
from kvlease.registry.rules import Timing
from kvlease.registry.servicer import RegistryServicer
from kvlease.registry.settings import Settings
from kvlease.registry.statuses import STATUSES
from kvlease.registry.store import Store
from kvlease.rpc import Draining, Service
from kvlease.v1.registry_pb2_grpc import add_RegistryServiceServicer_to_server

log = structlog.get_logger()

NAME = "kvlease.v1.RegistryService"
LOOK = 1.0
"""Seconds between two looks at what is scraped."""


@asynccontextmanager
async def create(settings: Settings, metrics: CollectorRegistry | None = None) -> AsyncIterator[Service]:
    """Gives the registry over the store that the settings name; counts in *metrics*. Raises as `stores.opened`."""
    async with stores.opened(settings) as store:
        counting = _count(Metrics(store, metrics, time.monotonic)) if metrics else nullcontext()
        async with counting:
            yield serve(store, settings.rules.timing)


@asynccontextmanager
async def _count(metrics: Metrics) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(work) for work in (metrics.follow(), _look(metrics))]
    for task in tasks:
        task.add_done_callback(_tell)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _look(metrics: Metrics) -> None:
    while True:
        await metrics.look()
        await asyncio.sleep(LOOK)


def _tell(counting: asyncio.Task[None]) -> None:
    error = None if counting.cancelled() else counting.exception()
    if error and not isinstance(error, Draining):  # at which all that follows the store ends
        log.error("metrics are not counted any more", exc_info=error)


def serve(store: Store, timing: Timing) -> Service:
    """Gives the registry service over any store."""
    servicer = RegistryServicer(store, timing)

    def register(server: grpc.aio.Server) -> None:
        add_RegistryServiceServicer_to_server(servicer, server)

    return Service(NAME, register, STATUSES, drain=lambda: store.stop_waiting(Draining))
