"""The registry's settings, checked once, and lengths of time as people write them."""

import re
from dataclasses import dataclass, field

from kvlease.registry.rules import Rules
from kvlease.rpc import address

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
LENGTH = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a registry is told at start. Lengths are seconds."""

    listen: str = "127.0.0.1:7440"
    rules: Rules = field(default_factory=Rules)
    value: str = "recent"
    """Which leases go first, a name of `service.VALUES`."""
    watch_limit: int = 10_000
    """Events that a watcher may leave untaken."""
    grace: float = 10.0
    """What running calls get when the registry stops."""

    def __post_init__(self) -> None:
        """Raises ValueError for settings that cannot be."""
        address.check(self.listen)
        if self.watch_limit < 1 or self.grace < 0:
            raise ValueError("a watcher must be allowed at least one event, and the grace must not be negative")


def seconds(text: str) -> float:
    """Reads "12s", "500ms", "8m" or "1h". Raises ValueError for anything else."""
    match = LENGTH.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} is no length of time; write "12s", "500ms", "8m" or "1h"')
    return float(match[1]) * UNITS[match[2]]


def written(length: float) -> str:
    """Writes a length so that `seconds` reads it."""
    return f"{length:g}s" if length >= 1 else f"{length * 1000:g}ms"
