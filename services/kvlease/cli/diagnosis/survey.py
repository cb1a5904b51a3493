"""A deployment at one moment, as it looked from one machine. Errors are texts; an empty one means that it worked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from kvlease.client.types import Engine, EngineRole, Ticket


class Fault(Enum):
    """In which way a service gave no answer."""

    SILENT = auto()
    REFUSED = auto()
    """It answers, but not to whoever asked."""
    HANDSHAKE = auto()
    """Something listens there, and does not come to terms with who asks."""
    OTHER = auto()
    """Another service answers there."""
    HTTP = auto()
    """An HTTP server listens there, where a gRPC server should."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service, where it was looked for, and what went wrong in which way."""

    name: str
    address: str
    error: str = ""
    fault: Fault = Fault.SILENT


@dataclass(frozen=True, slots=True)
class SideChannel:
    """Where an engine's NIXL shakes hands."""

    host: str
    port: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the registry's clock and ours took for the same; `doubt` is what the two calls themselves took."""

    theirs: float
    ours: float
    doubt: float


@dataclass(frozen=True, slots=True)
class Probe:
    """A conversation of two turns that was held to see what becomes of it."""

    model: str
    error: str = ""
    first: Ticket | None = None
    second: Ticket | None = None
    reasoning: bool = False
    """The answer came with reasoning, which is no part of the message that clients send back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """All that was looked at. What could not be is absent."""

    services: tuple[Service, ...]
    engines: tuple[Engine, ...] = ()
    models: frozenset[str] | None = None
    """That the gateway lists; None: it was not asked, or gave no answer."""
    http: Mapping[str, str] = field(default_factory=dict)
    """By engine id: what went wrong when its URL was tried."""
    side_channels: Mapping[str, SideChannel] = field(default_factory=dict)
    """By engine id, as far as leases tell."""
    routes: Mapping[str, str] = field(default_factory=dict)
    """By model: why the router did not route it."""
    may_route: bool = True
    """Whether the caller may ask for that; an operator may not."""
    tickets: tuple[Ticket, ...] = ()
    pace: Pace | None = None
    probes: tuple[Probe, ...] = ()

    def of(self, *roles: EngineRole) -> list[Engine]:
        """Healthy engines that may be used for one of these."""
        return [engine for engine in self.engines if engine.healthy and engine.role in (*roles, EngineRole.BOTH)]
