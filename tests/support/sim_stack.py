"""`kvlease up --engines sim` in a process of its own, on free ports."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ANY = "127.0.0.1:0"


@dataclass(frozen=True, slots=True)
class SimStack:
    """Where its services are: host:port, and the gateway's base URL."""

    registry: str
    router: str
    gateway: str

    @property
    def environment(self) -> dict[str, str]:
        return {"KVLEASE_REGISTRY": self.registry, "KVLEASE_ROUTER": self.router}


@contextmanager
def running(logs: Path, *options: str) -> Iterator[SimStack]:
    """Runs it, with prefill that caches nothing, so that what is reused was read."""
    places = ("--registry", _ANY, "--router", _ANY, "--gateway", _ANY)
    patience = ("--wait", "2s")  # a busy machine is not to decide what is reused
    kind = ("--engines", "sim", "--no-prefill-prefix-caching", "--json", "--logs", str(logs))
    command = [sys.executable, "-m", "kvlease.cli", "up", *kind, *places, *patience, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _until_ready(process)
        finally:
            process.terminate()
            process.communicate()  # it still tells that it stops


def _until_ready(process: "subprocess.Popen[str]") -> SimStack:
    assert process.stdout
    listening = None
    for line in process.stdout:
        match json.loads(line):
            case {"event": "listening", "registry": registry, "router": router, "gateway": gateway}:
                listening = SimStack(registry, router, gateway)
            case {"event": "ready"} if listening:
                return listening
    raise AssertionError("it ended before it was ready")
