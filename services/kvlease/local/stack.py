"""A `kvlease up` of one's own, in another process, with one prefill and one decode engine."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from kvlease.local.process import Process

_READY_WITHIN = 360.0  # seconds
_GRACE = 30.0  # seconds for `kvlease up` to end all that it started
_POLL = 0.1  # seconds
_ANY = "127.0.0.1:0"


class StackFailed(Exception):
    """It ended, or was not ready in time."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Where its parts are."""

    gateway: str  # base URL
    router: str  # host:port
    engines: dict[str, str]  # name to base URL


@contextmanager
def running(version: str, *, say: Callable[[str], object]) -> Iterator[Stack]:
    """Runs a stack on free ports, prefix caching off on prefill, and says on the way how far it is.

    Raises:
        StackFailed: it ended, or was not ready in time.
    """
    logs = Path(mkdtemp(prefix="kvlease-"))
    options = ["--engines", "cpu", "--vllm", version, "--no-prefill-prefix-caching", "--json", "--logs", str(logs)]
    patience = ["--wait", "1s"]  # a busy machine is not to decide what is shown
    places = ["--registry", _ANY, "--router", _ANY, "--gateway", _ANY]
    up = Process(
        "kvlease up",
        [sys.executable, "-m", "kvlease.cli", "up", *options, *patience, *places],
        log=logs / "up.log",
        grace=_GRACE,
    )
    say(f"starting vLLM {version} on CPU, one prefill and one decode engine; logs are in {logs}")
    try:
        up.start()
        yield _wait_ready(up, say)
    finally:
        up.stop()


def _wait_ready(up: Process, say: Callable[[str], object]) -> Stack:
    engines: dict[str, str] = {}
    places: dict[str, str] = {}
    begun = time.monotonic()
    for event in _events(up):
        match event:
            case {"event": "engine started", "name": name, "url": url}:
                engines[name] = url
            case {"event": "engine ready", "name": name}:
                say(f"{name} is ready after {time.monotonic() - begun:.0f} s")
            case {"event": "listening", **rest}:
                places = rest
            case {"event": "ready", "url": url}:
                return Stack(url, places["router"], engines)
    raise StackFailed(f"it was not ready; {up.tail()}")


def _events(up: Process) -> Iterator[dict[str, Any]]:
    """What it says, as it says it, until it ends or is late."""
    deadline = time.monotonic() + _READY_WITHIN
    with up.log.open() as log:
        while up.running and time.monotonic() < deadline:
            if line := log.readline():
                if line.startswith("{"):
                    yield json.loads(line)
            else:
                time.sleep(_POLL)
