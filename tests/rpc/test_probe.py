"""What a container's health check sees."""

import asyncio

from kvlease.rpc import Server
from kvlease.rpc.probe import main


async def test_a_server_that_serves_is_healthy() -> None:
    async with Server("127.0.0.1:0", []) as server:
        assert await asyncio.to_thread(main, server.address) == 0


async def test_a_service_that_it_does_not_have_is_not() -> None:
    async with Server("127.0.0.1:0", []) as server:
        assert await asyncio.to_thread(main, server.address, "kvlease.v1.NoService") == 1


def test_where_nobody_answers_it_is_not() -> None:
    assert main("127.0.0.1:1") == 1
