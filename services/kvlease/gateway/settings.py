"""The gateway's settings, checked once."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from kvlease.client.security import PLAIN, Security
from kvlease.gateway.http.limits import Limits
from kvlease.rpc import OPEN, Protection, address

_POSITIVE = ("wait", "connect_timeout", "silence_timeout", "lease_ttl", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a gateway is told at start. Times in seconds."""

    listen: str = "127.0.0.1:8440"
    router: str = "127.0.0.1:7441"
    registry: str = "127.0.0.1:7440"
    concurrent_dispatch: bool = True
    """Decode is sent its request while prefill still works; else once prefill is done."""
    wait: float = 0.05
    """Most that router and registry together may add to one try of a request."""
    retries: int = 2
    """Other decode engines that a request is sent to when one fails before it has said anything."""
    connect_timeout: float = 2.0
    silence_timeout: float = math.inf
    """An engine that owes an answer and sends nothing for so long is given up; by default only a lost session tells."""
    lease_ttl: float = 60.0
    """Shortest life of an unrenewed lease: those of requests in flight are renewed every third of it."""
    memory: float = 12.0
    """For how long an engine is tried that the registry has forgotten, as after a restart of the registry."""
    grace: float = 30.0
    """What answers in flight get when the gateway stops."""
    limits: Limits = field(default_factory=Limits)
    protection: Protection = OPEN
    security: Security = PLAIN
    """How router and registry are called."""
    engine_ca: Path | None = None
    """Authorities (PEM) that engines with HTTPS are believed on; None: the system's."""
    engine_key: bytes = field(default=b"", repr=False)
    """API key of the engines."""

    @property
    def key_for_engines(self) -> bytes | None:
        """What engines are shown: their key, else nothing, where clients' keys are ours; None: what clients show."""
        return self.engine_key if self.engine_key or self.protection.keys_file else None

    def __post_init__(self) -> None:
        """Refuses what cannot be."""
        address.check(self.listen)
        address.check_called(router=self.router, registry=self.registry)
        self.protection.check(self.listen)
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")
        if self.retries < 0 or self.grace < 0:
            raise ValueError("retries and grace must not be negative")
