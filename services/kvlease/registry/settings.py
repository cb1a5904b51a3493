"""The registry's settings, checked once."""

from dataclasses import dataclass, field

from kvlease.registry.rules import Rules
from kvlease.rpc import OPEN, Protection, address


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
    protection: Protection = OPEN

    def __post_init__(self) -> None:
        """Raises ValueError for settings that cannot be."""
        address.check(self.listen)
        self.protection.check(self.listen)
        if self.watch_limit < 1 or self.grace < 0:
            raise ValueError("a watcher must be allowed at least one event, and the grace must not be negative")
