"""The registry's settings, checked once."""

from dataclasses import dataclass, field

from kvlease.registry.rules import Rules
from kvlease.rpc import OPEN, Protection, address, telemetry

MEMORY = "memory"
AUTO, HABITS, RETURN, RECENT = "auto", "habits", "return", "recent"
NETWORK = ("redis://", "rediss://")
SCHEMES = (*NETWORK, "unix://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a registry is told at start. Lengths are seconds."""

    listen: str = "127.0.0.1:7440"
    store: str = MEMORY
    """Where state is kept: in this process, or at URLs with commas between, which several registries share."""
    store_prefix: str = "kvlease"
    """Begins the names of all keys there."""
    store_timeout: float = 1.0
    """What a call to it may take."""
    rules: Rules = field(default_factory=Rules)
    value: str = AUTO
    """Which leases go first: a name of `stores.VALUES`, or the best that the store has."""
    patience: float = 0.0
    """Seconds of a mean lease that a return is worth, where lives are learned; 0: lives are as the rules say."""
    watch_limit: int = 10_000
    """Events that a watcher may leave untaken."""
    grace: float = 10.0
    """What running calls get when the registry stops."""
    metrics: str = ""
    """Where Prometheus may fetch them; nowhere by default."""
    protection: Protection = OPEN

    def __post_init__(self) -> None:
        """Raises ValueError for settings that cannot be."""
        address.check(self.listen)
        self.protection.check(self.listen)
        telemetry.check(self.metrics, insecure=self.protection.insecure)
        if self.store != MEMORY and not all(url.startswith(SCHEMES) for url in self.store.split(",")):
            raise ValueError(f'a store is "{MEMORY}" or begins with one of {", ".join(SCHEMES)}')
        for url in self.store.split(","):
            if url.startswith(NETWORK):
                address.check_url("store", url)
        if not self.store_prefix or not self.store_prefix.isprintable() or set("{}") & set(self.store_prefix):
            raise ValueError("a store prefix must be printable and without braces")
        if self.store_timeout <= 0:
            raise ValueError("the store must be given some time")
        if self.patience < 0 or (self.patience and self.policy != HABITS):
            raise ValueError("only the value policy habits, which needs the memory store, has patience; not below 0")
        if self.watch_limit < 1 or self.grace < 0:
            raise ValueError("a watcher must be allowed at least one event, and the grace must not be negative")

    @property
    def policy(self) -> str:
        """The value policy that is meant."""
        return self.value if self.value != AUTO else HABITS if self.store == MEMORY else RETURN
