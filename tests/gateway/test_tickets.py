"""Completions that the router does not answer in time."""

import pytest

from kvlease.client.breaker import TRIP_AFTER, Breaker
from kvlease.client.errors import DeadlineExceeded, KvleaseError, TicketNotFound, Unavailable
from kvlease.gateway.background import Background
from kvlease.gateway.budget import Budget
from kvlease.gateway.tickets import Tickets
from kvlease.v1.lease_pb2 import STOP_REASON_TOOLS_CALLED, PrefillReport
from kvlease.v1.router_pb2 import (
    CancelTicketRequest,
    CancelTicketResponse,
    CompleteTicketRequest,
    CompleteTicketResponse,
)
from tests.support.clock import FakeClock

REPORT = PrefillReport(prompt_tokens=7)


class Router:
    """Fails at first, then answers."""

    def __init__(self, *failures: KvleaseError) -> None:
        self.asked: list[tuple[CompleteTicketRequest, float]] = []
        self._failures = list(failures)

    async def complete_ticket(
        self,
        request: CompleteTicketRequest,
        *,
        timeout: float,  # noqa: ASYNC109 - the client's
        tenant: str,
    ) -> CompleteTicketResponse:
        assert tenant == "t"
        self.asked.append((request, timeout))
        if self._failures:
            raise self._failures.pop(0)
        return CompleteTicketResponse(report=REPORT)

    async def cancel_ticket(
        self,
        request: CancelTicketRequest,
        *,
        timeout: float,  # noqa: ASYNC109 - the client's
        tenant: str,
    ) -> CancelTicketResponse:
        raise NotImplementedError


class Ending:
    """Completes one ticket."""

    def __init__(self, *failures: KvleaseError) -> None:
        clock = FakeClock()
        self.router, self.breaker, self._background = Router(*failures), Breaker(clock), Background()
        self._budget = Budget(0.01, clock)
        self._tickets = Tickets(self.router, self.breaker, self._background)

    async def complete(self) -> PrefillReport | None:
        report = await self._tickets.complete("kvt1", STOP_REASON_TOOLS_CALLED, tenant="t", budget=self._budget)
        await self._background.drain(1.0)
        return report


async def test_a_completion_is_answered_within_what_is_left() -> None:
    ending = Ending()

    assert await ending.complete() == REPORT

    ((_, timeout),) = ending.router.asked
    assert timeout == 0.01


@pytest.mark.parametrize("failure", [Unavailable, DeadlineExceeded])
async def test_a_completion_that_is_late_is_told_again_and_not_waited_for(failure: type[KvleaseError]) -> None:
    ending = Ending(failure("x"))

    assert await ending.complete() is None

    (first, _), (second, timeout) = ending.router.asked
    assert first == second
    assert second.stop_reason == STOP_REASON_TOOLS_CALLED
    assert timeout > 1.0


async def test_a_completion_that_is_refused_is_not_told_again() -> None:
    ending = Ending(TicketNotFound("x"))

    assert await ending.complete() is None

    assert len(ending.router.asked) == 1


async def test_a_completion_is_not_waited_for_where_the_router_is_lost_and_is_no_trial_of_it() -> None:
    ending = Ending()
    for _ in range(TRIP_AFTER):
        ending.breaker.failed()

    report = await ending.complete()

    assert report is None
    assert len(ending.router.asked) == 1
    assert ending.breaker.tripped
