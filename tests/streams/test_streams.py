"""Streams that come and go leave nothing behind, and one that only waits is left alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kvlease.client import channel as channels
from kvlease.registry.service import create
from kvlease.registry.settings import Settings
from kvlease.rpc import Server
from kvlease.rpc import server as servers
from tests.streams.registry import registry
from tests.streams.watches import Options, connect, idle, open_and_cancel, resident

FASTER = 100  # than real time


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    async with create(Settings()) as service, Server("127.0.0.1:0", [service]) as server:
        yield server.address


def hastened(options: Options) -> Options:
    """The options with every time of keepalive shortened."""
    return [
        (name, max(1, value // FASTER) if isinstance(value, int) and _is_time(name) else value)
        for name, value in options
    ]


def _is_time(name: str) -> bool:
    return name.endswith("_ms") and ("keepalive_time" in name or "ping" in name)


async def test_memory_is_flat_however_many_watches_come_and_go() -> None:
    with registry() as (address, pid):
        async with connect(address) as channel:
            await channel.channel_ready()
            await open_and_cancel(channel, 300)
            before = resident(pid)
            await open_and_cancel(channel, 600)

            assert resident(pid) - before < 10_000_000  # a stream that stays takes some 30 kB


async def test_no_task_outlives_its_watch() -> None:
    async with serving() as address, connect(address) as channel:
        await open_and_cancel(channel, 50)
        before = len(asyncio.all_tasks())
        await open_and_cancel(channel, 100)

        async with asyncio.timeout(20):
            while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - cancelled calls end in their own time
                await asyncio.sleep(0.02)


async def test_an_idle_watch_and_its_connection_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes of keepalive, a hundred times faster: sixty pings of the client's."""
    monkeypatch.setattr(servers, "OPTIONS", hastened(servers.OPTIONS))
    async with serving() as address, connect(address, hastened(channels.OPTIONS)) as channel:
        assert await idle(channel, 600 / FASTER) == ""


async def test_a_server_that_minds_pings_would_have_been_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = [(name, value) for name, value in servers.OPTIONS if "http2" not in name and "permit" not in name]
    monkeypatch.setattr(servers, "OPTIONS", strict)
    async with serving() as address, connect(address, hastened(channels.OPTIONS)) as channel:
        assert "the watch ended" in await idle(channel, 10)


def test_clients_ping_less_often_than_servers_allow() -> None:
    pings, allowed = dict(channels.OPTIONS), dict(servers.OPTIONS)
    every = pings["grpc.keepalive_time_ms"]

    assert isinstance(every, int)
    assert every > allowed["grpc.http2.min_ping_interval_without_data_ms"]
