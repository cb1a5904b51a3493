"""The stack of tests/e2e with simulated engines in place of real ones, each a process of its own."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kvlease.local import model, ports
from kvlease.local.process import Process
from tests.e2e.stack import PATIENT, Services, Stack, ready, services

HOLD = 6.0  # seconds
QUICK = (
    *("--heartbeat", "500ms", "--hold", f"{HOLD:g}s"),
    *("--claim", "1500ms", "--margin", "200ms", "--least-claim", "100ms"),
)
MEMORY = ("--memory", f"{HOLD:g}s")  # of the gateway, as long as a session lasts without heartbeats, as by default
FAST = ("--token-time", "1ms")
TTL = 2.0  # seconds that a lease lives after an answer


class SimEngine(Process):
    """A simulated engine; started again, it has the port it had."""

    def __init__(self, role: str, plane: Services, logs: Path, more: Sequence[str]) -> None:
        """Takes *more* options of `kvlease sim-engine`."""
        [port] = ports.free(1)
        self.url = f"http://127.0.0.1:{port}"
        place = ("--role", role, "--port", str(port), "--engine-id", role, "--model", model.NAME)
        where = ("--registry", plane.registry.address, "--router", plane.router.address)
        super().__init__(
            role,
            [sys.executable, "-m", "kvlease.cli", "sim-engine", *place, *where, *more],
            log=logs / f"{role}.log",
            grace=5.0,
            environment=os.environ | PATIENT | {"PYTHONUNBUFFERED": "1"},
        )


@contextmanager
def running(
    logs: Path, *, ttl: float = TTL, engines: Sequence[str] = (), decode: Sequence[str] = ()
) -> Iterator[Stack]:
    """A stack that serves; *engines* are more options of both engines, *decode* of one."""
    with services(logs, ttl=ttl, registry=QUICK, gateway=MEMORY) as plane, ExitStack() as stack:
        made = (
            SimEngine("prefill", plane, logs, (*FAST, *engines, "--no-prefix-caching")),  # only decode has the history
            SimEngine("decode", plane, logs, (*FAST, *engines, *decode)),
        )
        for engine in made:
            stack.callback(engine.stop)
            engine.start()
        yield stack.enter_context(ready(Stack(plane, *made, ttl=ttl)))
