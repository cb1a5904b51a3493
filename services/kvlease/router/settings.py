"""The router's settings, checked once."""

import secrets
from dataclasses import dataclass, field

from kvlease.client.security import PLAIN, Security
from kvlease.router.overload import Overload
from kvlease.router.ticket import MIN_KEY_BYTES
from kvlease.rpc import OPEN, Protection, address, telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a router is told at start. Times in seconds."""

    listen: str = "127.0.0.1:7441"
    registry: str = "127.0.0.1:7440"
    ticket_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """The same on every replica; random by default, which is right for one router alone."""
    other_ticket_keys: tuple[bytes, ...] = field(default=(), repr=False)
    """Those that others sign with while the key changes."""
    wait: float = 0.05
    """Most that the registry may add to a request."""
    refresh: float = 0.5
    """Between two looks at the engines."""
    stale: float = 600.0
    """Age from which the engines last seen are not routed to any more, while the registry does not answer."""
    lifetime: float = 3600.0
    """How long a ticket is good: longer than any turn takes."""
    tickets: int = 50_000
    """Turns remembered."""
    conversations: int = 65_536
    """Conversations whose last decode engine is remembered, for when the registry knows nothing."""
    overload: Overload = field(default_factory=Overload)
    grace: float = 10.0
    """What running calls get when the router stops."""
    metrics: str = ""
    """Where Prometheus may fetch them; nowhere by default."""
    protection: Protection = OPEN
    security: Security = PLAIN
    """How the registry is called."""

    def __post_init__(self) -> None:
        """Raises ValueError for settings that cannot be."""
        address.check(self.listen)
        address.check_called(registry=self.registry)
        self.protection.check(self.listen)
        telemetry.check(self.metrics, insecure=self.protection.insecure)
        for name in ("wait", "refresh", "stale", "lifetime", "tickets", "conversations"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        if self.grace < 0:
            raise ValueError("grace must not be negative")
        if self.stale <= self.refresh:
            raise ValueError("stale must be longer than refresh")
        if any(len(key) < MIN_KEY_BYTES for key in (self.ticket_key, *self.other_ticket_keys)):
            raise ValueError(f"ticket_key must have at least {MIN_KEY_BYTES} bytes")
