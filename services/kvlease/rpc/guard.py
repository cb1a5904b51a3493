"""Stands before the RPCs of a server that does not trust its callers."""

from collections.abc import Iterator
from contextlib import contextmanager

from kvlease.rpc.access import ACCESS
from kvlease.rpc.identity import Context, Identify, Identity, Role, RoleDenied, admitted
from kvlease.rpc.limits import Meter


class Guard:
    """Lets a call in if its caller is known, its role may, and its tenant has not asked for too much."""

    def __init__(self, identify: Identify, meter: Meter | None = None) -> None:
        """Counts what applications ask for with the *meter*; what services ask for tenants was counted before."""
        self._identify = identify
        self._meter = meter

    @contextmanager
    def admit(self, method: str, context: Context, size: int) -> Iterator[None]:
        """Lets one call of *size* bytes in until left. Raises what the caller is told."""
        identity = self._identify(context)
        allowed = ACCESS.get(method, frozenset())
        if identity.roles.isdisjoint(allowed):
            raise RoleDenied(allowed)
        token = admitted.set(identity)
        try:
            with self._counted(identity, size):
                yield
        finally:
            admitted.reset(token)

    @contextmanager
    def _counted(self, identity: Identity, size: int) -> Iterator[None]:
        if self._meter is None or Role.APPLICATION not in identity.roles:
            yield
            return
        self._meter.take(identity.tenant, size)
        with self._meter.running(identity.tenant):
            yield
