"""The engines of one machine together: started side by side, and ended side by side."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Self

from kvlease.local.engine import Engine, EngineFailed
from kvlease.local.launch import Role

READY_WITHIN = 300.0  # seconds: two engines take 45 on two idle cores
_POLL = 0.25  # seconds


class Fleet(AbstractContextManager["Fleet"]):
    """Engines that run from entering until leaving."""

    def __init__(self, engines: Iterable[Engine]) -> None:
        self.engines = tuple(engines)

    def __iter__(self) -> Iterator[Engine]:
        return iter(self.engines)

    def of(self, role: Role) -> list[Engine]:
        return [engine for engine in self.engines if engine.launch.role is role]

    def __enter__(self) -> Self:
        for engine in self.engines:
            engine.start()
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self.engines:
            engine.tell_to_stop()
        for engine in self.engines:
            engine.stop()


def wait_ready(
    engines: Iterable[Engine], *, within: float = READY_WITHIN, tell: Callable[[Engine], None] = lambda _: None
) -> None:
    """Returns once all are healthy, having told of each.

    Raises:
        EngineFailed: one ended, or took longer than `within` seconds.
    """
    deadline = time.monotonic() + within
    waiting = list(engines)
    while waiting:
        for engine in [engine for engine in waiting if engine.ready()]:
            waiting.remove(engine)
            tell(engine)
        if waiting and time.monotonic() > deadline:
            raise EngineFailed(f"{waiting[0].name} was not ready within {within:g} s; {waiting[0].tail()}")
        time.sleep(_POLL if waiting else 0)
