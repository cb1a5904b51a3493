"""Every code block of these pages runs, in order, against simulated engines."""

import ast
import asyncio
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import Block, blocks
from tests.support.sim_stack import SimStack, running

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = Path(__file__).with_name("stand_ins.sh")
PAGES = ("README.md", "docs/index.md", "docs/client.md", "docs/cli.md", "docs/tracing.md")
SHELL, PYTHON, SHOWN = ("sh", "bash"), ("python",), ("text", "mermaid")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimStack]:
    with running(tmp_path_factory.mktemp("logs")) as stack:
        yield stack


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(stack: SimStack, page: str) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(ROOT / page):
        if block.language in SHELL:
            run_shell(block, stack)
        elif block.language in PYTHON:
            run_python(block, stack, names)
        elif block.language == "json":
            json.loads(block.text)
        else:
            assert block.language in SHOWN, f"{page}:{block.line}: a block in {block.language or 'no language'}"


def run_shell(block: Block, stack: SimStack) -> None:
    """Runs a block as a script, with stand-ins for what takes minutes."""
    script = f"source {STAND_INS}\n{placed(block.text, stack).replace('.venv/bin/', '')}"
    environment = os.environ | stack.environment | {"PYTHON": sys.executable, "KVLEASE_GATEWAY": stack.gateway}
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{block.page.name}:{block.line}: {done.stderr}"


def run_python(block: Block, stack: SimStack, names: dict[str, Any]) -> None:
    """Runs a block after those before it; it may await."""
    source = "\n" * block.line + placed(block.text, stack)
    code = compile(source, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))  # noqa: S307 - our own pages
    else:
        exec(code, names)  # noqa: S102 - likewise


def placed(text: str, stack: SimStack) -> str:
    """Puts the addresses of this stack where a page has those of a local one."""
    gateway = stack.gateway.removeprefix("http://")
    for shown, real in (
        ("127.0.0.1:8440", gateway),
        ("127.0.0.1:7440", stack.registry),
        ("127.0.0.1:7441", stack.router),
    ):
        text = text.replace(shown, real)
    return text
