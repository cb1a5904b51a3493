"""How much a tenant may ask for: requests per second, requests at a time, bytes of a request."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CROWDED_PAUSE = 1.0  # seconds after which a tenant with too many requests at a time may try again


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one tenant, at each server; None: no limit."""

    rate: float | None = None
    """Requests per second in the long run."""
    burst: float | None = None
    """Requests at once after a pause; one second's worth if not given."""
    concurrent: int | None = None
    """Requests at a time."""
    request_bytes: int | None = None
    """Longest request."""

    def __post_init__(self) -> None:
        """Raises ValueError for a limit that lets nothing through."""
        for name in self.__slots__:
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise ValueError(f"{name} must be above 0")

    @property
    def depth(self) -> float:
        """What a bucket holds: at least one request, or nothing would ever pass."""
        return max(1.0, self.burst or self.rate or 1.0)


class OverLimit(Exception):
    """A tenant asks for more than it may."""

    def __init__(self, tenant: str, limit: str, retry_after: float | None) -> None:
        hint = "send less at once" if retry_after is None else f"try again in {retry_after:.1f} s"
        super().__init__(f"over the tenant's limit ({limit}): {hint}")
        self.tenant = tenant
        self.limit = limit
        self.retry_after = retry_after


@dataclass(slots=True)
class _Use:
    """What a tenant has used: *left* requests in its bucket at *at*, and *running* ones."""

    left: float = math.inf
    at: float = 0.0
    running: int = 0


class Meter:
    """Counts what tenants use. Knows no more tenants than there are credentials for."""

    def __init__(self, limits_of: Callable[[str], Limits], clock: Callable[[], float]) -> None:
        """Asks for a tenant's limits at every request: they may change."""
        self._limits_of = limits_of
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    def take(self, tenant: str, size: int) -> None:
        """Counts a request of *size* bytes. Raises OverLimit."""
        limits = self._limits_of(tenant)
        if limits.request_bytes is not None and size > limits.request_bytes:
            raise OverLimit(tenant, f"{limits.request_bytes} bytes a request", None)
        if limits.rate is not None:
            self._draw(tenant, limits, limits.rate)

    @contextmanager
    def running(self, tenant: str) -> Iterator[None]:
        """Counts a request as running until left. Raises OverLimit."""
        use = self._use(tenant)
        most = self._limits_of(tenant).concurrent
        if most is not None and use.running >= most:
            raise OverLimit(tenant, f"{most} requests at a time", CROWDED_PAUSE)
        use.running += 1
        try:
            yield
        finally:
            use.running -= 1

    def _draw(self, tenant: str, limits: Limits, rate: float) -> None:
        use, now = self._use(tenant), self._clock()
        use.left = min(limits.depth, use.left + (now - use.at) * rate)
        use.at = now
        if use.left < 1.0:
            raise OverLimit(tenant, f"{rate:g} requests a second", (1.0 - use.left) / rate)
        use.left -= 1.0

    def _use(self, tenant: str) -> _Use:
        return self._uses.setdefault(tenant, _Use())
