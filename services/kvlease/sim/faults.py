"""Faults that can be switched on while an engine runs. Values only; whoever is to fail asks."""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

_POLL = 0.02  # seconds


@dataclass(slots=True, kw_only=True)
class Faults:
    """What goes wrong now. Lengths are seconds from when they are set; 0 ends them.

    Attributes:
        fail_next: So many requests are answered 500.
        drop_next: Of so many requests the connection is cut while their prompt is computed.
        read_delay: Each read takes so much longer.
        black_hole: Reads that begin within this never end.
        freeze: The engine does nothing at all, and neither does its connector.
        hold_heartbeats: No heartbeat is sent.
        control_delay: Every call to the control plane is sent so much later.
        control_cut: No call to the control plane is answered.
        lose_answers: So many answers of the control plane are lost; it has done what it was asked.
    """

    fail_next: int = 0
    drop_next: int = 0
    read_delay: float = 0.0
    black_hole: float = 0.0
    freeze: float = 0.0
    hold_heartbeats: float = 0.0
    control_delay: float = 0.0
    control_cut: float = 0.0
    lose_answers: int = 0


_COUNTS = {"fail_next", "drop_next", "lose_answers"}
_SPANS = {"black_hole", "freeze", "hold_heartbeats", "control_cut"}
NAMES = tuple(field.name for field in fields(Faults))


class Switches:
    """The faults of one engine, on its clock. Read by two threads, set by one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._now = Faults()
        self._until: dict[str, float] = {}

    def set(self, wanted: Mapping[str, Any]) -> None:
        """Switches faults on or off by name.

        Raises:
            ValueError: There is no fault of that name, or its value is no number from 0 up.
        """
        for name, value in wanted.items():
            if name not in NAMES:
                raise ValueError(f"there is no fault {name!r}; there are {', '.join(NAMES)}")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a number from 0 up")
        for name, value in wanted.items():
            if name in _SPANS:
                self._until[name] = self._clock() + value
            else:
                setattr(self._now, name, int(value) if name in _COUNTS else float(value))

    def left(self) -> dict[str, float]:
        """Returns what is left of each fault."""
        return {name: self.span(name) if name in _SPANS else getattr(self._now, name) for name in NAMES}

    def span(self, name: str) -> float:
        """Returns for how many seconds more a fault lasts."""
        until = self._until.get(name)
        return max(0.0, until - self._clock()) if until else 0.0

    def take(self, name: str) -> bool:
        """Takes one of a counted fault."""
        left: int = getattr(self._now, name)
        if left:
            setattr(self._now, name, left - 1)
        return left > 0

    @property
    def calm(self) -> bool:
        """Nothing that concerns the control plane was ever switched on, as far as is known at a glance."""
        return not self._until and not self._now.control_delay and not self._now.lose_answers

    @property
    def read_delay(self) -> float:
        """Seconds that a read takes longer."""
        return self._now.read_delay

    @property
    def control_delay(self) -> float:
        """Seconds that a call to the control plane is held back."""
        return self._now.control_delay

    async def thawed(self) -> None:
        """Waits while the engine is frozen."""
        await self.over("freeze")

    async def over(self, name: str) -> None:
        """Waits until a fault that lasts is over, also when it is ended early or lengthened."""
        while left := self.span(name):  # noqa: ASYNC110 - it is set in another thread, and ends by the clock
            await asyncio.sleep(min(left, _POLL))
