"""The registry as a process, and its command line."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator

import grpc
import httpx
import pytest
import structlog

from kvlease.registry.__main__ import main
from kvlease.rpc import Server
from kvlease.v1 import registry_pb2
from tests.registry.messages import stub


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


async def test_it_says_when_it_is_ready_and_stops_on_a_signal() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kvlease.registry", "--listen", "127.0.0.1:0", "--claim", "500ms"),
        *("--least-claim", "100ms"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    try:
        line = json.loads(await process.stderr.readline())
        address = line["event"].removeprefix("ready registry ")
        async with grpc.aio.insecure_channel(address) as channel:
            answer = await stub(channel).ListEngines(registry_pb2.ListEnginesRequest())
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()

    assert list(answer.engines) == []
    assert process.returncode == 0


async def test_its_metrics_can_be_fetched_and_it_stops_in_silence() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kvlease.registry", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    try:
        where = json.loads(await process.stderr.readline())["metrics"]
        async with httpx.AsyncClient() as client, asyncio.timeout(20):
            while "kvlease_registry_pinned_token_seconds_total 0.0" not in (told := await scraped(client, where)):
                pass  # what was seen last is looked at every second
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = await process.communicate()

    assert "kvlease_registry_renewals_total 0.0" in told
    assert {json.loads(line)["level"] for line in log.splitlines()} <= {"info"}


async def scraped(client: httpx.AsyncClient, where: str) -> str:
    return (await client.get(f"http://{where}/metrics")).text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "0.0.0.0:7440"], "--insecure"),
        (["--listen", "nowhere"], "no listen address"),
        (["--claim", "11s"], "must fit into hold"),
        (["--hold", "12"], "no length of time"),
        (["--least-claim", "6s"], "must not be longer than a claim"),
        (["--retention", "1.5"], "between 0 and 1"),
        (["--branches", "0"], "at least 1"),
        (["--tombstone", "1s"], "at least hold"),
        (["--longest-life", "1m"], "longest life"),
        (["--answered-ttl", "0s"], "above 0"),
        (["--watch-limit", "0"], "at least one event"),
        (["--value", "whatever"], "invalid choice"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_help_tells_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    assert "default: 12s" in capsys.readouterr().out


async def test_an_address_that_is_taken_is_an_error() -> None:
    async with Server("127.0.0.1:0", []) as server:
        assert await asyncio.to_thread(main, ["--listen", server.address]) == 1


def test_a_shared_store_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--listen", "127.0.0.1:0", "--store", "redis://127.0.0.1:1", "--store-timeout", "20s"]) == 1

    assert "the store cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--store", "etcd://x"], ["--store-prefix", "{x}"], ["--store-timeout", "0s"]])
def test_a_store_that_cannot_be_is_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["--listen", "127.0.0.1:0", *wrong])

    assert exited.value.code == 2
