"""One engine's process."""

from pathlib import Path

from kvlease.local import launch as launching
from kvlease.local import page
from kvlease.local.launch import Launch
from kvlease.local.process import Process

_GRACE = 15.0  # seconds that an engine has to end by itself


class EngineFailed(Exception):
    """An engine ended by itself, or was not ready in time; the message ends with the tail of its log."""


class Engine(Process):
    """A vLLM server; started again, it has the ports it had."""

    def __init__(self, launch: Launch, *, logs: Path) -> None:
        super().__init__(
            launch.name,
            launching.command(launch),
            environment=launching.environment(launch),
            log=logs / f"{launch.name}.log",
            grace=_GRACE,
        )
        self.launch = launch

    @property
    def url(self) -> str:
        return self.launch.url

    def ready(self) -> bool:
        """Whether the engine is healthy yet.

        Raises:
            EngineFailed: it has ended.
        """
        if not self.running:
            raise EngineFailed(f"{self.name} ended; {self.tail()}")
        return page.answers(f"{self.url}/health")
