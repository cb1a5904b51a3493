"""A registry that keeps what it is told, and fails when told to."""

import asyncio
from collections.abc import Sequence

from kvlease.router.engine import Engine
from kvlease.router.registry import Branch
from kvlease.router.ticket import Terms
from kvlease.v1.lease_pb2 import PrefillReport, StopReason
from kvlease.v1.registry_pb2 import TurnOutcome


class FakeRegistry:
    """A Registry. While `error` is set every call fails with it; while `frozen` is set every call waits for it."""

    def __init__(self, *engines: Engine) -> None:
        self.fleet: list[Engine] = list(engines)
        self.held: dict[tuple[str, str], list[Branch]] = {}
        self.ended: list[tuple[str, str]] = []
        self.report: PrefillReport | None = None
        self.error: Exception | None = None
        self.frozen: asyncio.Event | None = None
        self.calls: list[str] = []

    async def engines(self) -> Sequence[Engine]:
        await self._called("engines")
        return list(self.fleet)

    async def branches(self, tenant: str, conversation_id: str, _wait: float) -> Sequence[Branch]:
        await self._called("branches")
        return self.held.get((tenant, conversation_id), [])

    async def end_turn(
        self, terms: Terms, outcome: TurnOutcome.ValueType, _stop_reason: StopReason.ValueType, _wait: float
    ) -> PrefillReport | None:
        await self._called("end_turn")
        self.ended.append((terms.ticket_id, TurnOutcome.Name(outcome).removeprefix("TURN_OUTCOME_")))
        return self.report

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.frozen:
            await self.frozen.wait()
        if self.error:
            raise self.error
