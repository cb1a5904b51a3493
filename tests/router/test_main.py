"""The router as a process."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator

import pytest
import structlog

from kvlease.client.engine import EngineRouterClient
from kvlease.client.errors import RegistryUnreachable
from kvlease.router.__main__ import main
from kvlease.rpc import Server
from kvlease.v1 import router_pb2


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


async def test_it_says_when_it_is_ready_and_stops_on_a_signal() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kvlease.router", "--listen", "127.0.0.1:0", "--registry", "127.0.0.1:1"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    try:
        while "ready router " not in (line := (await process.stderr.readline()).decode()):
            assert line, "it ended"
        client = EngineRouterClient(json.loads(line)["event"].removeprefix("ready router "))
        with pytest.raises(RegistryUnreachable):
            await client.route(router_pb2.RouteRequest(request_id="r", model="m"))
        await client.close()
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()

    assert process.returncode == 0


def test_an_address_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--listen", "0.0.0.0:7441"])

    assert caught.value.code == 2
    assert "--insecure" in capsys.readouterr().err


async def test_an_address_that_is_taken_is_an_error() -> None:
    async with Server("127.0.0.1:0", []) as server:
        assert await asyncio.to_thread(main, ["--listen", server.address, "--registry", "127.0.0.1:1"]) == 1
