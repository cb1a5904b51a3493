"""The engines of one machine together: started side by side, and ended side by side."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kvlease.local import ports
from kvlease.local.engine import Engine, EngineFailed
from kvlease.local.install import Installation
from kvlease.local.launch import ControlPlane, Launch, Role

READY_WITHIN = 300.0  # seconds: two engines take 45 on two idle cores
_POLL = 0.25  # seconds


class Fleet:
    """Some engines."""

    def __init__(self, engines: Iterable[Engine]) -> None:
        self.engines = tuple(engines)

    def __iter__(self) -> Iterator[Engine]:
        return iter(self.engines)

    def of(self, role: Role) -> list[Engine]:
        return [engine for engine in self.engines if engine.launch.role is role]

    def start(self) -> None:
        """Starts all, and waits for none."""
        for engine in self.engines:
            engine.start()

    def stop(self) -> None:
        """Ends all, by force after some time; also those that are still starting."""
        for engine in self.engines:
            engine.tell_to_stop()
        for engine in self.engines:
            engine.stop()


def plan(
    installation: Installation, model: Path, *, prefill: int, decode: int, control: ControlPlane | None
) -> list[Launch]:
    """So many engines of each role, named and on free ports; whoever wants more of one replaces fields of it."""
    roles = [Role.PREFILL] * prefill + [Role.DECODE] * decode
    found = iter(ports.free(2 * len(roles)))
    numbers = {role: iter(range(len(roles))) for role in Role}
    return [
        Launch(
            name=f"{role}-{next(numbers[role])}",
            role=role,
            installation=installation,
            model=model,
            http_port=next(found),
            side_port=next(found),
            control=control,
        )
        for role in roles
    ]


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
