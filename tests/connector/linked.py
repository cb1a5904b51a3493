"""An engine's link to the control plane of `plane`, with a clock that the test moves."""

import threading
from collections.abc import Callable

from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.connector.body import CODEC
from kvlease.connector.link import Link
from kvlease.connector.loop_thread import LoopThread
from kvlease.connector.owner import Owner
from kvlease.v1.lease_pb2 import EngineRef
from kvlease.v1.registry_pb2 import Engine, EngineLoad
from tests.connector.plane import Registry, Router
from tests.connector.requests import LAYOUT
from tests.support.clock import FakeClock


class Linked:
    """One engine's link, and all that the engine gives it."""

    def __init__(self, registry: Registry, router: Router, ref: EngineRef, *, http_url: str = "") -> None:
        self.clock, self.owner, self.thread = FakeClock(), Owner(), LoopThread("test-link")
        self.load = EngineLoad(running=1)
        self.wakes = 0
        self._woken = threading.Condition()
        self.link = Link(
            EngineRegistryClient(registry.address),
            EngineRouterClient(router.address),
            Engine(ref=ref, kv_layout=LAYOUT, http_url=http_url or f"http://{router.address}"),
            self.owner,
            load=lambda: self.load,
            wake=self._wake,
            clock=self.clock,
            codec=CODEC,
            thread=self.thread,
        )

    def start(self) -> "Linked":
        """Starts, and waits for a session."""
        self.link.start()
        self.until(lambda: self.link.connected)
        return self

    def stop(self) -> None:
        self.link.close(0.0)
        self.thread.stop()

    def until(self, happened: Callable[[], object], within: float = 10.0) -> None:
        """Waits until *happened* is true; fails if it is not *within* so many seconds."""
        with self._woken:
            for _ in range(round(within / 0.01)):
                if happened():
                    return
                self._woken.wait(0.01)
        raise AssertionError("it did not happen")

    def _wake(self) -> None:
        with self._woken:
            self.wakes += 1
            self._woken.notify_all()
