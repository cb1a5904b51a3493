"""Puts a registry together, for its own process or for one with other services."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from kvlease.registry import stores
from kvlease.registry.rules import Timing
from kvlease.registry.servicer import RegistryServicer
from kvlease.registry.settings import Settings
from kvlease.registry.statuses import STATUSES
from kvlease.registry.store import Store
from kvlease.rpc import Draining, Service
from kvlease.v1.registry_pb2_grpc import add_RegistryServiceServicer_to_server

NAME = "kvlease.v1.RegistryService"


@asynccontextmanager
async def create(settings: Settings) -> AsyncIterator[Service]:
    """Gives the registry service over the store that the settings name. Raises as `stores.opened`."""
    async with stores.opened(settings) as store:
        yield serve(store, settings.rules.timing)


def serve(store: Store, timing: Timing) -> Service:
    """Gives the registry service over any store."""
    servicer = RegistryServicer(store, timing)

    def register(server: grpc.aio.Server) -> None:
        add_RegistryServiceServicer_to_server(servicer, server)

    return Service(NAME, register, STATUSES, drain=lambda: store.stop_waiting(Draining))
