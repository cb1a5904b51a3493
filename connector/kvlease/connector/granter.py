"""Asks for the leases that an owner keeps already, until they are answered. Runs on the link's event loop."""

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from kvlease.client import errors
from kvlease.client.convert import seconds
from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.connector.clock import Clock
from kvlease.connector.complaint import Complaint, fault
from kvlease.connector.owner import Owner
from kvlease.connector.session import Session
from kvlease.v1.lease_pb2 import ConversationKey, EngineRef, LeaseKind, PrefillReport
from kvlease.v1.registry_pb2 import (
    EndTurnRequest,
    GrantLeaseRequest,
    ReleaseLeaseRequest,
    ReleaseStatus,
    TurnOutcome,
)
from kvlease.v1.router_pb2 import CancelTicketRequest, Leg, PublishPrefillRequest

log = structlog.get_logger()

RETRY = 0.1  # seconds
REFUSALS = (
    errors.BudgetExhausted,
    errors.IdTaken,
    errors.IncarnationMismatch,
    errors.Malformed,
    errors.TenantLimit,
    errors.TurnOver,
)
"""Said by a registry that has not granted the lease and never will. Of any other error nobody knows what it hides."""
FORGO_RETRY, FORGO_WITHIN = 0.5, 120.0  # seconds


class Granter:
    """The grants of one engine."""

    def __init__(
        self,
        registry: EngineRegistryClient,
        router: EngineRouterClient,
        session: Session,
        engine: EngineRef,
        owner: Owner,
        *,
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        """Calls *wake* on the event loop when blocks are to be freed."""
        self._registry, self._router, self._session, self._engine = registry, router, session, engine
        self._owner, self._wake, self._clock = owner, wake, clock
        self._refused = Complaint("lease refused, nothing is kept", clock)

    async def grant(self, request: GrantLeaseRequest, fill: Callable[[GrantLeaseRequest], None], ticket: str) -> None:
        """Completes the request with *fill*, then asks until the registry grants or refuses.

        Gives up when the owner's fail-safe has let the blocks go. Nobody then waits for a lease that does not come.
        """
        if await self._granted(request, fill):
            return
        if request.kind == LeaseKind.LEASE_KIND_PREFILL:
            await self.forgo(ticket, request.conversation.tenant)
        else:
            await self.keep_nothing(request.ticket_id, request.conversation)

    async def _granted(self, request: GrantLeaseRequest, fill: Callable[[GrantLeaseRequest], None]) -> bool:
        lease_id = request.lease_id
        try:
            fill(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the blocks must not stay for ever
            fault("lease not asked for", error, lease_id=lease_id)
            self._let_go(lease_id, "NOT_ASKED_FOR")
        while self._owner.holds(lease_id):
            try:
                remaining, generation = await self._grant_once(request)
            except (errors.Unavailable, errors.DeadlineExceeded, errors.SessionNotFound):
                await asyncio.sleep(RETRY)  # perhaps it was granted: hold, and ask again with the same id
            except errors.TurnOver:  # as it must be: a client that has left
                log.info("lease of a turn that is over", lease_id=lease_id)
                self._let_go(lease_id, "TURN_OVER")
            except errors.KvleaseError as error:
                why = error.reason or type(error).__name__
                self._refused(why, lease_id=lease_id, blocks=request.handle.block_count, error=_told(error))
                if not isinstance(error, REFUSALS):
                    await self._take_back(lease_id)
                self._let_go(lease_id, why)
            else:
                if self._owner.granted(lease_id, generation, remaining, self._clock()):
                    return True
                await self._release(lease_id)
        return False

    async def _take_back(self, lease_id: str) -> None:
        """Returns once the registry has no such lease, nor takes it later: only then may its blocks go."""
        while self._owner.holds(lease_id):
            if await self._release(lease_id):
                return
            await asyncio.sleep(RETRY)

    async def publish(self, ticket: str, lease_id: str, report: PrefillReport) -> None:
        """Tells the router how prefill went: for those who ask it; decode finds the lease at the registry."""
        request = PublishPrefillRequest(ticket=ticket, engine=self._engine, lease_id=lease_id, report=report)
        with contextlib.suppress(errors.KvleaseError):
            await self._router.publish_prefill(request)

    async def forgo(self, ticket: str, tenant: str) -> None:
        """Tells that this turn's prefill gives no lease, again and again until it is heard: decode waits for it."""
        request = CancelTicketRequest(ticket=ticket, leg=Leg.LEG_PREFILL)
        until = self._clock() + FORGO_WITHIN
        while self._clock() < until:
            try:
                await self._router.cancel_ticket(request, tenant=tenant)
            except (errors.Unavailable, errors.DeadlineExceeded):
                await asyncio.sleep(FORGO_RETRY)
            except errors.KvleaseError as error:
                log.info("prefill not taken back", reason=error.reason)
                return
            else:
                return

    async def keep_nothing(self, ticket_id: str, conversation: ConversationKey) -> None:
        """Tells that decode grants nothing for this turn; tried once, for if it is lost claims but wait a little."""
        outcome = TurnOutcome.TURN_OUTCOME_NOTHING_KEPT
        request = EndTurnRequest(ticket_id=ticket_id, conversation=conversation, outcome=outcome, decode=self._engine)
        with contextlib.suppress(errors.KvleaseError):
            await self._registry.end_turn(request)

    def _let_go(self, lease_id: str, why: str) -> None:
        self._owner.over(lease_id, why)
        self._wake()

    async def _grant_once(self, request: GrantLeaseRequest) -> tuple[float, int]:
        if (credential := self._session.credential) is None:
            raise errors.Unavailable("no session with the registry")
        request.credential.CopyFrom(credential)
        answer = await self._registry.grant_lease(request)
        if self._session.credential != credential:
            raise errors.Unavailable("the lease is of a session that is over, and was not announced in the next one")
        return seconds(answer.remaining), answer.generation

    async def _release(self, lease_id: str) -> bool:
        """Gives a lease back; false if that was not heard, or it is still read, so that an order to free it follows."""
        if (credential := self._session.credential) is None:
            return False
        try:
            answer = await self._registry.release_lease(ReleaseLeaseRequest(credential=credential, lease_id=lease_id))
        except errors.KvleaseError:
            return False
        return answer.status == ReleaseStatus.RELEASE_STATUS_RELEASED


def _told(error: errors.KvleaseError) -> str:
    """Says what the registry said, with what it meant by it, such as the budget."""
    return ", ".join([str(error), *(f"{key} {value}" for key, value in error.metadata.items())])
