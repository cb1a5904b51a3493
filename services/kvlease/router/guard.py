"""The registry behind a circuit breaker, so that a dead one costs a few requests their wait, and not all."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog

from kvlease.router.breaker import Breaker
from kvlease.router.engine import Engine
from kvlease.router.errors import RegistryUnreachable
from kvlease.router.registry import Branch, Registry, RegistryRefused
from kvlease.router.ticket import Terms
from kvlease.v1.lease_pb2 import PrefillReport, StopReason
from kvlease.v1.registry_pb2 import TurnOutcome

log = structlog.get_logger()


class GuardedRegistry:
    """A Registry. Guards the calls of requests; the polling of engines goes on, and tells nothing about their speed."""

    def __init__(self, inner: Registry, breaker: Breaker) -> None:
        self._inner = inner
        self._breaker = breaker

    async def engines(self) -> Sequence[Engine]:
        return await self._inner.engines()

    async def branches(self, tenant: str, conversation_id: str) -> Sequence[Branch]:
        async with self._guarded():
            return await self._inner.branches(tenant, conversation_id)

    async def end_turn(
        self, terms: Terms, outcome: TurnOutcome.ValueType, stop_reason: StopReason.ValueType
    ) -> PrefillReport | None:
        async with self._guarded():
            return await self._inner.end_turn(terms, outcome, stop_reason)

    @asynccontextmanager
    async def _guarded(self) -> AsyncIterator[None]:
        if not self._breaker.allows():
            raise RegistryUnreachable("did not answer lately")
        was = self._breaker.tripped
        try:
            yield
        except RegistryUnreachable as error:
            self._breaker.failed()
            if self._breaker.tripped and not was:
                log.warning("registry lost", cause=error.cause)
            raise
        except RegistryRefused:
            self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        if was:
            log.info("registry found again")
