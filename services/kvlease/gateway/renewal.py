"""Keeps the leases of conversations alive while requests of theirs are in flight."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import structlog

from kvlease.client.errors import KvleaseError
from kvlease.v1 import registry_pb2

_BATCH = 1000  # of a RenewLeases
_TIMEOUT = 2.0

log = structlog.get_logger()


class Renews(Protocol):
    """The registry's part."""

    async def renew_leases(
        self,
        request: registry_pb2.RenewLeasesRequest,
        *,
        timeout: float,  # noqa: ASYNC109 - the client's
        tenant: str,
    ) -> registry_pb2.RenewLeasesResponse: ...


class InFlight:
    """The conversations at work, and when each is to be renewed. A new one is due at once."""

    def __init__(self, interval: float, clock: Callable[[], float]) -> None:
        """Renews each every *interval* seconds."""
        self._interval = interval
        self._clock = clock
        self._requests: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._due: dict[tuple[str, str], float] = {}

    @contextmanager
    def holding(self, tenant: str, conversation: str) -> Iterator[None]:
        """Counts a request of a conversation."""
        key = (tenant, conversation)
        self._requests[key] += 1
        self._due.setdefault(key, self._clock())
        try:
            yield
        finally:
            self._requests[key] -= 1
            if not self._requests[key]:
                del self._requests[key], self._due[key]

    def take_due(self) -> dict[str, list[str]]:
        """Returns the conversations to renew now, by tenant, and counts them as renewed."""
        now = self._clock()
        due: defaultdict[str, list[str]] = defaultdict(list)
        for key, at in self._due.items():
            if at <= now:
                due[key[0]].append(key[1])
                self._due[key] = now + self._interval
        return due


class Renewer:
    """Renews what is due: one call for all conversations of a tenant."""

    def __init__(self, registry: Renews, in_flight: InFlight) -> None:
        self._registry = registry
        self._in_flight = in_flight

    async def renew(self) -> None:
        """Sends the renewals that are due. What fails comes again after the interval: a third of a lease's life."""
        for tenant, conversations in self._in_flight.take_due().items():
            for start in range(0, len(conversations), _BATCH):
                await self._send(tenant, conversations[start : start + _BATCH])

    async def _send(self, tenant: str, conversations: list[str]) -> None:
        renewals = [registry_pb2.LeaseRenewal(conversation_id=each) for each in conversations]
        try:
            await self._registry.renew_leases(
                registry_pb2.RenewLeasesRequest(renewals=renewals), timeout=_TIMEOUT, tenant=tenant
            )
        except KvleaseError as error:
            log.warning("leases not renewed", tenant=tenant, conversations=len(conversations), error=str(error))
