"""The registry behind a circuit breaker, so that a dead one costs a few requests their wait, and not all."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from kvlease.client.breaker import Breaker
from kvlease.router.engine import Engine
from kvlease.router.errors import RegistryUnreachable
from kvlease.router.registry import Branch, Registry, RegistryRefused
from kvlease.router.ticket import Terms
from kvlease.v1.lease_pb2 import PrefillReport, StopReason
from kvlease.v1.registry_pb2 import TurnOutcome

T = TypeVar("T")

log = structlog.get_logger()


class GuardedRegistry:
    """A Registry. Guards the calls of requests; the polling of engines goes on, and tells nothing about their speed."""

    def __init__(self, inner: Registry, breaker: Breaker, *, fair: float) -> None:
        """No answer within less than *fair* seconds says more about the caller's hurry than about the registry."""
        self._inner = inner
        self._breaker = breaker
        self._fair = fair

    async def engines(self) -> Sequence[Engine]:
        return await self._inner.engines()

    async def branches(self, tenant: str, conversation_id: str, wait: float) -> Sequence[Branch]:
        return await self._guarded(lambda: self._inner.branches(tenant, conversation_id, wait), wait)

    async def end_turn(
        self, terms: Terms, outcome: TurnOutcome.ValueType, stop_reason: StopReason.ValueType, wait: float
    ) -> PrefillReport | None:
        return await self._guarded(lambda: self._inner.end_turn(terms, outcome, stop_reason, wait), wait)

    async def _guarded(self, call: Callable[[], Awaitable[T]], wait: float) -> T:
        if not self._breaker.allows():
            raise RegistryUnreachable("did not answer lately")
        was = self._breaker.tripped
        try:
            answer = await call()
        except RegistryUnreachable as error:
            if wait >= self._fair:
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
        return answer
