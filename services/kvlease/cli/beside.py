"""Engines beside the services of `kvlease up`: what is asked of them, whatever they are."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Tell(Protocol):
    """Takes what happens: an event's name, and its data."""

    def __call__(self, event: str, /, **data: object) -> None: ...


class Engines(Protocol):
    """Engines of one's own. What happens to them is told as "engine started", "engine ready" and "engine ended"."""

    @property
    def names(self) -> Collection[str]:
        """What the registry will call them."""

    def running(self, tell: Tell) -> AbstractAsyncContextManager[None]:
        """Starts them, and ends them on leaving. Raises OSError when one cannot be started."""

    async def ready(self, tell: Tell) -> None:
        """Waits until all are. Raises EngineFailed when one will never be."""

    async def supervise(self, tell: Tell) -> None:
        """Starts again what ends, until cancelled."""
