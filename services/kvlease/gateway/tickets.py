"""Ends tickets at the router."""

import asyncio
from typing import Protocol

import structlog

from kvlease.client.breaker import Breaker
from kvlease.client.errors import DeadlineExceeded, KvleaseError, Unavailable
from kvlease.gateway.background import Background
from kvlease.gateway.budget import Budget
from kvlease.v1 import lease_pb2, router_pb2

_TIMEOUT = 2.0  # seconds, where nobody waits
_CANCEL_TRIES, _CANCEL_PAUSE = 240, 0.5  # seconds between two: for as long as any router outage is waited for

log = structlog.get_logger()


class Ends(Protocol):
    """The router's part in ending turns."""

    async def complete_ticket(
        self,
        request: router_pb2.CompleteTicketRequest,
        *,
        timeout: float,  # noqa: ASYNC109 - the client's
        tenant: str,
    ) -> router_pb2.CompleteTicketResponse: ...

    async def cancel_ticket(
        self,
        request: router_pb2.CancelTicketRequest,
        *,
        timeout: float,  # noqa: ASYNC109 - the client's
        tenant: str,
    ) -> router_pb2.CancelTicketResponse: ...


class Tickets:
    """Completes and cancels. A router that does not answer loses nothing but time: its leases lapse by themselves."""

    def __init__(self, router: Ends, breaker: Breaker, background: Background) -> None:
        self._router = router
        self._breaker = breaker
        self._background = background

    async def complete(
        self, ticket: str, stop_reason: lease_pb2.StopReason.ValueType, *, tenant: str, budget: Budget
    ) -> lease_pb2.PrefillReport | None:
        """Ends an answered turn; returns what is known of its prefill, None also if the router keeps silent.

        One that the router did not answer within what is left of the budget is told again, and not waited for.
        """
        if not ticket:
            return None
        request = router_pb2.CompleteTicketRequest(ticket=ticket, stop_reason=stop_reason)
        if not self._breaker.tripped:
            try:
                with budget.spend() as left:
                    response = await self._router.complete_ticket(request, timeout=left, tenant=tenant)
            except (Unavailable, DeadlineExceeded) as error:
                log.info("ticket not completed in time", error=str(error))
            except KvleaseError as error:
                log.warning("ticket not completed", error=str(error))
                return None
            else:
                return response.report if response.HasField("report") else None
        self._background.start(self._complete(request, tenant))
        return None

    async def _complete(self, request: router_pb2.CompleteTicketRequest, tenant: str) -> None:
        """Completes once more: else a lease would not know why its turn stopped, nor claims that its grant is due."""
        try:
            await self._router.complete_ticket(request, timeout=_TIMEOUT, tenant=tenant)
        except KvleaseError as error:
            log.warning("ticket not completed", error=str(error))

    def cancel(self, ticket: str, leg: router_pb2.Leg.ValueType, *, tenant: str) -> None:
        """Ends a turn that will not be answered, or one leg of it; does not wait."""
        if ticket:
            self._background.start(self._cancel(router_pb2.CancelTicketRequest(ticket=ticket, leg=leg), tenant))

    async def _cancel(self, request: router_pb2.CancelTicketRequest, tenant: str) -> None:
        """Cancels; a failed prefill is told again until it is heard, since decode waits for it."""
        for _ in range(_CANCEL_TRIES if request.leg == router_pb2.LEG_PREFILL else 1):
            try:
                await self._router.cancel_ticket(request, timeout=_TIMEOUT, tenant=tenant)
            except (Unavailable, DeadlineExceeded) as error:
                log.warning("ticket not cancelled", error=str(error))
                await asyncio.sleep(_CANCEL_PAUSE)
            except KvleaseError as error:
                log.warning("ticket not cancelled", error=str(error))
                return
            else:
                return
