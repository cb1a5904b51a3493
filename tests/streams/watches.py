"""Watches that come and go, and one that only waits: what they leave behind at a registry, and what ends them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from kvlease.client import channel as channels
from kvlease.v1 import registry_pb2, registry_pb2_grpc

Options: TypeAlias = Sequence[tuple[str, int | str]]

_AT_ONCE = 50


def connect(address: str, options: Options = channels.OPTIONS) -> grpc.aio.Channel:
    """A channel as the client library makes them."""
    return grpc.aio.insecure_channel(channels.target(address), options)


async def open_and_cancel(channel: grpc.aio.Channel, watches: int) -> None:
    """Opens so many watches, 50 at a time, and cancels each once it has begun."""
    stub: Any = registry_pb2_grpc.RegistryServiceStub(channel)
    room = asyncio.Semaphore(_AT_ONCE)

    async def one() -> None:
        async with room:
            call = stub.WatchLeases(registry_pb2.WatchLeasesRequest())
            event = await call.read()
            call.cancel()
        assert event.event == registry_pb2.LEASE_EVENT_SYNCED

    for _ in range(0, watches, _AT_ONCE):
        await asyncio.gather(*(one() for _ in range(_AT_ONCE)))


async def idle(channel: grpc.aio.Channel, seconds: float) -> str:
    """Watches what never happens; says what ended the watch or its connection before the time, or nothing."""
    stub: Any = registry_pb2_grpc.RegistryServiceStub(channel)
    call = stub.WatchLeases(registry_pb2.WatchLeasesRequest())
    assert (await call.read()).event == registry_pb2.LEASE_EVENT_SYNCED
    ready = grpc.ChannelConnectivity.READY
    waits = {
        asyncio.ensure_future(call.read()): "the watch ended",
        asyncio.ensure_future(channel.wait_for_state_change(ready)): "the connection ended",
    }
    ended, waiting = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    call.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    return ", ".join(f"{waits[task]}: {task.exception() or 'without an error'}" for task in ended)


def resident(pid: int) -> int:
    """Memory of a process, in bytes."""
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
