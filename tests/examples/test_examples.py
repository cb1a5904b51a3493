"""Every example runs as its first lines say, against simulated engines."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.support.sim_stack import SimStack, running

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimStack]:
    with running(tmp_path_factory.mktemp("logs")) as stack:
        yield stack


def run(stack: SimStack, name: str, *options: str) -> str:
    """Runs an example; gives what it printed."""
    command = [sys.executable, str(EXAMPLES / name), *options]
    done = subprocess.run(
        command, env=os.environ | stack.environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_begins_with_a_turn_that_reuses_the_one_before(stack: SimStack, tmp_path: Path) -> None:
    program = next(block.text for block in blocks(EXAMPLES.parent / "docs" / "client.md") if block.language == "python")
    moved = program.replace("127.0.0.1:7440", stack.registry).replace("127.0.0.1:7441", stack.router)
    (tmp_path / "quick_start.py").write_text(moved)

    said = run(stack, str(tmp_path / "quick_start.py"))

    (first, _), (second, prompt) = re.findall(r"(\d+) of (\d+) tokens were kept", said)
    assert int(first) == 0
    assert int(second) > int(prompt) // 2


def test_an_agent_that_holds_its_conversation_reuses_it(stack: SimStack) -> None:
    said = run(stack, "agent_loop.py", "--tool-time", "100ms", "--turns", "3")

    first, *others = re.findall(r"(\d+) reused", said)
    assert first == "0"
    assert len(others) == 2
    assert all(int(reused) > 100 for reused in others)
    assert said.count("KV kept") == 2


def test_an_agent_that_is_silent_runs_too(stack: SimStack) -> None:
    said = run(stack, "agent_loop.py", "--tool-time", "100ms", "--silent", "--conversation", "silent")

    assert said.count("turn:") == 2


def test_the_openai_package_goes_through_the_gateway(stack: SimStack) -> None:
    said = run(stack, "openai_package.py", "--gateway", stack.gateway, "--tool-time", "100ms")

    first, second = re.findall(r"(\d+) of them not computed", said)
    assert first == "0"
    assert int(second) > 100


def test_langgraph_goes_through_the_gateway(stack: SimStack) -> None:
    said = run(stack, "langgraph_agent.py", "--gateway", stack.gateway, "--tool-time", "100ms")

    first, *others = re.findall(r"(\d+) of them not computed", said)
    assert first == "0"
    assert len(others) == 2
    assert all(int(cached) > 100 for cached in others)
    assert "KV kept" in said


def test_every_example_is_run_here() -> None:
    tested = Path(__file__).read_text()

    assert all(f'"{example.name}"' in tested for example in EXAMPLES.glob("*.py"))
