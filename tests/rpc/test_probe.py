"""What a container's health check sees."""

import asyncio

import pytest

from kvlease.rpc import Protection, Server
from kvlease.rpc.probe import main
from tests.support.credentials import security, tls


async def test_a_server_that_serves_is_healthy() -> None:
    async with Server("127.0.0.1:0", []) as server:
        assert await asyncio.to_thread(main, server.address) == 0


async def test_a_service_that_it_does_not_have_is_not() -> None:
    async with Server("127.0.0.1:0", []) as server:
        assert await asyncio.to_thread(main, server.address, "kvlease.v1.NoService") == 1


def test_where_nobody_answers_it_is_not() -> None:
    assert main("127.0.0.1:1") == 1


async def test_a_server_that_wants_certificates_is_asked_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given = security("router")
    for name, file in (("CA", given.ca), ("CERT", given.cert), ("KEY", given.key)):
        monkeypatch.setenv(f"KVLEASE_{name}", str(file))

    async with Server("127.0.0.1:0", [], Protection(tls=tls("router"))) as server:
        assert await asyncio.to_thread(main, server.address) == 0
