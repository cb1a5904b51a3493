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
