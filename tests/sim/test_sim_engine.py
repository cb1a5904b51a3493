"""`kvlease sim-engine` starts what it was asked to, says when it is ready, and ends with the signal."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

import aiohttp
import pytest

from kvlease.cli import sim_engine
from kvlease.sim.settings import Settings


def settings(*arguments: str, **environment: str) -> Sequence[Settings]:
    parser = argparse.ArgumentParser()
    sim_engine.add_parser(parser.add_subparsers())
    return sim_engine.settings_from(parser.parse_args(["sim-engine", *arguments]), environment)


def test_without_options_it_is_one_engine_for_both() -> None:
    [one] = settings()

    assert (one.role, one.port, one.connector.registry, one.connector.bidirectional) == (
        "both",
        8100,
        "127.0.0.1:7440",
        True,
    )


def test_several_engines_have_ports_in_a_row_and_names_of_their_own() -> None:
    several = settings("--count", "3", "--port", "9000", "--engine-id", "d", "--role", "decode")

    assert [(one.port, one.connector.engine_id) for one in several] == [(9000, "d-0"), (9001, "d-1"), (9002, "d-2")]


def test_the_environment_of_a_real_engine_is_understood() -> None:
    [one] = settings(KVLEASE_REGISTRY="r:1", KVLEASE_ROUTER="q:2", KVLEASE_ENGINE_ID="e", KVLEASE_WAIT="200ms")

    connector = one.connector
    assert (connector.registry, connector.router, connector.engine_id, connector.wait) == ("r:1", "q:2", "e", 0.2)


def test_an_option_goes_before_the_environment() -> None:
    [one] = settings("--registry", "here:1", KVLEASE_REGISTRY="there:1")

    assert one.connector.registry == "here:1"


def test_others_may_know_it_by_another_name() -> None:
    [one] = settings("--host", "0.0.0.0", "--insecure", "--name", "sim-1")

    assert (one.host, one.name) == ("0.0.0.0", "sim-1")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--port", "99999"),
        ("--port", "-1"),
        ("--port", "65530", "--count", "20"),
        ("--block-size", "48"),
        ("--blocks", "1"),
        ("--max-num-seqs", "0"),
        ("--host", "0.0.0.0"),
    ],
)
def test_what_cannot_be_is_refused(arguments: Sequence[str]) -> None:
    with pytest.raises(ValueError, match=r"must|reached"):
        settings(*arguments)


async def test_it_says_when_it_is_ready_and_ends_with_the_signal() -> None:
    command = ("-m", "kvlease.cli", "sim-engine", "--count", "2", "--port", "0", "--registry", "127.0.0.1:1")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60), aiohttp.ClientSession() as http:
            for _ in range(2):
                ready, _, url = (await process.stdout.readline()).decode().strip().partition(" ")
                assert ready == "ready"
                async with http.get(f"{url}/health") as health:
                    assert health.status == 200
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
