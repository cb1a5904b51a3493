"""A service that does not answer is named, with its address, and nothing is printed beside the exception."""

import asyncio
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from kvlease.client import aio, sync
from kvlease.client.errors import DeadlineExceeded, KvleaseError, Unavailable, Unimplemented
from kvlease.client.testing import FakeRegistry, FakeRouter

_PROGRAM = """
import sys
from kvlease.client.errors import Unavailable
from kvlease.client.sync import Client

with Client(registry=sys.argv[1], router=sys.argv[1]) as client, client.conversation("c") as conversation:
    try:
        list(conversation.chat([{"role": "user", "content": "Hi"}], model="m"))
    except Unavailable as error:
        print(error)
"""


@pytest.fixture
def nobody() -> str:
    """An address where nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{closed.getsockname()[1]}"


def failures(method: str, *given: Any, registry: str, router: str) -> list[KvleaseError]:
    """What both clients raise."""

    async def call() -> None:
        async with aio.Client(registry=registry, router=router) as client:
            await getattr(client, method)(*given, timeout=0.3)

    with sync.Client(registry=registry, router=router) as client, pytest.raises(KvleaseError) as of_threads:
        getattr(client, method)(*given, timeout=0.3)
    with pytest.raises(KvleaseError) as of_tasks:
        asyncio.run(call())
    return [of_threads.value, of_tasks.value]


@pytest.mark.parametrize(("method", "server"), [("route", "router"), ("end", "registry")])
def test_nobody_at_an_address_is_named(nobody: str, method: str, server: str) -> None:
    for error in failures(method, "x", registry=nobody, router=nobody):
        assert isinstance(error, Unavailable)
        assert error.never_answered
        assert str(error).startswith(f"no {server} answers at {nobody}: ")


@pytest.mark.parametrize(("method", "server"), [("route", "router"), ("end", "registry")])
def test_the_wrong_service_at_an_address_is_named(
    registry: FakeRegistry, router: FakeRouter, method: str, server: str
) -> None:
    called = registry.address if server == "router" else router.address

    for error in failures(method, "x", registry=router.address, router=registry.address):
        assert isinstance(error, Unimplemented)
        assert str(error).startswith(f"what answers at {called} is no {server}, or an older one")


def test_a_service_that_is_slow_is_named(registry: FakeRegistry) -> None:
    registry.freeze()

    for error in failures("end", "x", registry=registry.address, router=registry.address):
        assert isinstance(error, DeadlineExceeded)
        assert str(error) == f"the registry at {registry.address} did not answer in time"


def test_who_answered_once_is_waited_for(registry: FakeRegistry) -> None:
    with sync.Client(registry=registry.address) as client:
        client.list_leases()
        registry.stop()
        with pytest.raises(Unavailable) as raised:
            client.list_leases(timeout=0.3)

    assert not raised.value.never_answered


def test_a_turn_that_fails_raises_and_prints_nothing(nobody: str) -> None:
    command = [sys.executable, "-c", _PROGRAM, nobody]
    quiet = os.environ | {"GRPC_VERBOSITY": "NONE"}  # which has a log of its own
    program = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=60, check=False)

    assert program.stdout.startswith(f"no router answers at {nobody}")
    assert program.stderr == ""
