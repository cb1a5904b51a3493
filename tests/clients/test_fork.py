"""vLLM forks: what is built before opens nothing, so that it works after, in both processes."""

import os
import subprocess
import sys

import pytest

from kvlease.client.testing import FakeRegistry
from tests.conftest import Seen

BUILD_THEN_FORK = """
import asyncio, os, sys
from kvlease.client.aio import Client as AioClient
from kvlease.client.sync import Client

address = sys.argv[1]
threads, tasks = Client(registry=address), AioClient(registry=address)

async def call():
    assert len(await tasks.list_leases()) == 1
    await tasks.close()

child = os.fork()
assert len(threads.list_leases()) == 1
threads.close()
asyncio.run(call())
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.case(44)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_clients_built_before_a_fork_work_after_it(seen: Seen) -> None:
    with FakeRegistry() as registry:
        registry.grant("c")

        program = subprocess.run(
            [sys.executable, "-c", BUILD_THEN_FORK, registry.address], timeout=60, capture_output=True, check=False
        )

    assert program.returncode == 0, program.stderr.decode()
    assert len(registry.calls) == 4
    seen(f"built before a fork: {len(registry.calls)} calls answered in both processes")


CHAT_THEN_FORK = """
import os, sys
from kvlease.client.errors import ClientClosed
from kvlease.client.sync import Client

client = Client(registry=sys.argv[1], router=sys.argv[1])
with client.conversation("c") as conversation:
    conversation.chat([{"role": "user", "content": "hi"}], model="m").close()
child = os.fork()
if not child:
    with client.conversation("c") as conversation:
        try:
            conversation.chat([{"role": "user", "content": "hi"}], model="m").close()
            next(conversation.chat([{"role": "user", "content": "hi"}], model="m"))
        except ClientClosed as error:
            told = str(error)
    client.close()
    os._exit(0 if "forked" in told else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
client.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_turns_of_before_a_fork_are_not_waited_for_in_the_child() -> None:
    with FakeRegistry() as registry:
        program = subprocess.run(
            [sys.executable, "-c", CHAT_THEN_FORK, registry.address], timeout=60, capture_output=True, check=False
        )

    assert program.returncode == 0, program.stderr.decode()
