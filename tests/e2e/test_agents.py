"""An agent whose tool takes longer than a lease lives, with the client library, on real engines."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvlease.local import install
from tests.e2e.stack import Stack

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        os.environ.get("KVLEASE_TEST_VLLM", install.DEFAULT) != install.DEFAULT, reason="one version tells for all"
    ),
]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "agent_loop.py"


def start(stack: Stack, conversation: str, *options: str) -> "subprocess.Popen[str]":
    """Starts the example, with a tool that takes some seconds longer than a lease lives."""
    command = [sys.executable, str(EXAMPLE), "--conversation", conversation, "--tool-time", f"{stack.ttl + 4}s"]
    services = {"KVLEASE_REGISTRY": stack.registry.address, "KVLEASE_ROUTER": stack.router.address}
    return subprocess.Popen([*command, *options], env=os.environ | services, stdout=subprocess.PIPE, text=True)


def test_an_agent_that_holds_its_conversation_keeps_its_kv_and_a_silent_one_loses_it(
    stack: Stack, conversation: str
) -> None:
    silent = f"{conversation}-silent"

    with start(stack, conversation) as holding, start(stack, silent, "--silent") as saying_nothing:
        held, _ = holding.communicate(timeout=120)
        lost, _ = saying_nothing.communicate(timeout=120)

    stack.settle(silent)
    assert (holding.returncode, saying_nothing.returncode) == (0, 0)
    first, second = (int(reused) for reused in re.findall(r"(\d+) reused", held))
    assert first == 0
    assert second > 1000
    assert "KV kept" in held
    assert re.findall(r"(\d+) reused", lost) == ["0", "0"]
    assert "KV lost" in lost
