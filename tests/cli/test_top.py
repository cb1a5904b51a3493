"""`kvlease top` shows engines and traffic, and says what it cannot see."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from kvlease.cli.screen import Glance, frame, pool
from kvlease.client.sync import Client
from kvlease.client.testing import FakeRegistry, FakeRouter
from kvlease.client.types import EngineLoad
from tests.cli.records import engine
from tests.support.sim_stack import SimStack, running

Run = Callable[..., int]
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("free", "leased", "drawn"),
    [
        (1000, 0, "." * 24),
        (500, 500, "=" * 12 + "." * 12),
        (0, 500, "#" * 12 + "=" * 12),
        (250, 250, "#" * 12 + "=" * 6 + "." * 6),
    ],
)
def test_a_pool_is_a_bar(free: int, leased: int, drawn: str) -> None:
    load = EngineLoad(running=0, waiting=0, free_blocks=free, leased_blocks=leased)

    assert pool(engine("e", load=load, leased_blocks=leased)) == drawn


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_frame_of_any_width_shows_whole_numbers(width: int) -> None:
    console = Console(width=width, record=True, file=StringIO())

    console.print(frame(Glance(engines=[engine("127.0.0.1:5600")]), title="top", width=width))

    shown = console.export_text()
    assert "900/1000" in shown
    assert "…" not in shown


def test_what_is_out_of_reach_is_said(run: Run, capsys: Capture) -> None:
    nowhere = "127.0.0.1:1"
    places = ("--gateway", f"http://{nowhere}", "--registry", nowhere, "--router", nowhere)

    assert run("top", *places, "--timeout", "200ms") == 1

    said = capsys.readouterr().out
    assert "no figures from http://127.0.0.1:1/metrics" in said
    assert "no registry or router answers at 127.0.0.1:1" in said


def test_without_a_gateway_the_router_tells(
    run: Run, registry: FakeRegistry, router: FakeRouter, capsys: Capture
) -> None:
    with Client(registry=registry.address, router=router.address) as client:
        client.complete(client.route("model", conversation_id="c", prompt_tokens=100).ticket)

    assert run("top", "--gateway", "http://127.0.0.1:1", "--timeout", "10s") == 0

    said = capsys.readouterr().out
    assert "requests  1 " in said
    assert "computed 100 tokens" in said


def test_a_gateway_without_a_scheme_is_wrong_usage(run: Run) -> None:
    with pytest.raises(SystemExit) as left:
        run("top", "--gateway", "127.0.0.1:8440")

    assert left.value.code == 2


def converse_and_miss(stack: SimStack) -> None:
    """Holds a conversation whose second turn finds nothing any more."""
    body = {"model": "kvlease-tiny", "messages": [{"role": "user", "content": "Hello?"}], "conversation_id": "c"}
    for _ in range(2):
        httpx.post(f"{stack.gateway}/v1/chat/completions", json=body, timeout=60).raise_for_status()
        httpx.delete(f"{stack.gateway}/v1/conversations/c", timeout=60).raise_for_status()


def test_a_deployment_is_shown_once_in_a_pipe_and_live_on_a_terminal(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        converse_and_miss(stack)
        command = [sys.executable, "-m", "kvlease.cli", "top", "--gateway", stack.gateway, "--timeout", "10s"]
        environment = os.environ | stack.environment

        plain = subprocess.check_output(command, env=environment, text=True, timeout=60)
        whole = subprocess.run(
            [*command, "--json"], env=environment, capture_output=True, timeout=60, check=True
        ).stdout
        live = on_terminal([*command, "--interval", "100ms"], environment | {"TERM": "xterm", "COLUMNS": "160"})

    assert "decode-0" in plain
    assert "MISSES" in plain
    assert json.loads(whole)["traffic"]["tokens"]["computed"] > 0
    assert "decode-0" in live
    assert "NO_LEASE" in live


def on_terminal(command: list[str], environment: dict[str, str]) -> str:
    """Runs a command on a terminal until it has shown its second frame, and interrupts it."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while shown.count(b"prefill-0") < 2:
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the terminal is gone with its process
                break
    os.close(ours)
    assert process.returncode == 128 + signal.SIGINT
    return shown.decode()
