"""Asks the control plane what a turn may read, and keeps the claim while it is read. Runs on the link's event loop."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable

import structlog

from kvlease.client import errors
from kvlease.client.convert import seconds
from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.connector.body import BadBodyError, Codec
from kvlease.connector.claim import Claim
from kvlease.connector.clock import Clock
from kvlease.connector.complaint import fault
from kvlease.connector.prefix import STRIDE, Chain
from kvlease.connector.session import Session
from kvlease.connector.turn import Answer, Source, Turn
from kvlease.v1.lease_pb2 import EngineRef
from kvlease.v1.registry_pb2 import (
    BranchTarget,
    ClaimLeaseRequest,
    ClaimLeaseResponse,
    FinishClaimRequest,
    ReadOutcome,
    RenewClaimRequest,
)
from kvlease.v1.router_pb2 import PrefillState, ResolveTicketRequest

log = structlog.get_logger()

BOUNDARIES = 256  # digests sent with a claim
PREFILL_WAIT = 20.0  # seconds that one call waits for prefill; then it asks again
PROOF_WAIT = 0.05  # seconds that a claim waits for the ticket's proof, once both were asked for
MIN_RENEWAL = 0.1  # seconds


class Reader:
    """The claims of one engine."""

    def __init__(
        self,
        registry: EngineRegistryClient,
        router: EngineRouterClient,
        session: Session,
        engine: EngineRef,
        *,
        codec: Codec,
        answered: Callable[[Turn], None],
        clock: Clock,
    ) -> None:
        """Calls *answered* on the event loop, once for each turn whose answer comes in time."""
        self._registry, self._router, self._session, self._engine = registry, router, session, engine
        self._codec, self._answered, self._clock = codec, answered, clock
        self._renewals: dict[str, asyncio.Task[None]] = {}

    async def ask(self, turn: Turn) -> None:
        """Claims what *turn* reads while the router proves its ticket, and settles the turn, whatever happens."""
        claiming = asyncio.create_task(self._claim(turn))
        try:
            answer = await self._proved(turn, claiming)
        except errors.KvleaseError as error:
            answer = Answer(miss=error.reason or "UNREACHABLE")
        except TimeoutError:
            answer = Answer(miss="ROUTER_SILENT")
        except Exception as error:  # noqa: BLE001 - whatever it is, the request must not wait for ever
            fault("nothing claimed", error, request_id=turn.request_id)
            answer = Answer(miss="FAULT")
        settled = turn.settle(answer)
        if settled:
            self._answered(turn)
        if not (settled and answer.claim):
            await self._give_back(claiming)

    async def finish(self, claim: Claim, outcome: "ReadOutcome.ValueType", tokens: int) -> None:
        """Ends *claim*. Where the registry does not hear it, the claim ends by itself."""
        if (renewal := self._renewals.pop(claim.claim_id, None)) is not None:
            renewal.cancel()
        if (credential := self._session.credential) is None:
            return
        request = FinishClaimRequest(credential=credential, claim_id=claim.claim_id, outcome=outcome, tokens=tokens)
        with contextlib.suppress(errors.KvleaseError):
            await self._registry.finish_claim(request)

    async def _proved(self, turn: Turn, claiming: "asyncio.Task[tuple[Claim, Chain]]") -> Answer:
        """Waits for the claim and the proof; a ticket that is not good, or a lost registry, ends the wait at once."""
        proving, losing = asyncio.create_task(self._prove(turn)), asyncio.create_task(self._session.lost())
        tasks = claiming, proving, losing
        try:
            while not claiming.done():
                pending = [task for task in tasks if not task.done()]
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if proving.done():
                    proving.result()
                if losing.done() and not claiming.done():
                    raise errors.Unavailable("no session with the registry", reason="NO_SESSION")
            claim, chain = claiming.result()
            await asyncio.wait_for(proving, max(PROOF_WAIT, turn.deadline - self._clock()))
            return self._usable(claim, chain)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _give_back(self, claiming: "asyncio.Task[tuple[Claim, Chain]]") -> None:
        """Ends the claim of a turn that does not read; one whose answer is under way ends by itself."""
        if not claiming.cancelled() and claiming.exception() is None:
            await self.finish(claiming.result()[0], ReadOutcome.READ_OUTCOME_NOT_NEEDED, 0)

    async def _prove(self, turn: Turn) -> None:
        """Raises `errors.KvleaseError` unless the router signed the ticket, for this engine, and it is not over.

        Nor must it have been told that the prefill which *turn* waits for will not come.
        """
        said = await self._router.resolve_ticket(ResolveTicketRequest(ticket=turn.ticket, engine=self._engine))
        if turn.source is Source.PREFILL and said.prefill_state == PrefillState.PREFILL_STATE_FAILED:
            raise errors.PrefillFailed("the router knows that prefill failed", reason="PREFILL_FAILED")

    async def _claim(self, turn: Turn) -> tuple[Claim, Chain]:
        chain = turn.chain()
        request = ClaimLeaseRequest(claim_id=uuid.uuid4().hex, ticket_id=turn.terms.ticket_id)
        if turn.source is Source.PREFILL:
            request.prefill_ticket_id = turn.terms.ticket_id
            request.prefill.CopyFrom(turn.terms.prefill)
        else:
            strides, digests = chain.boundaries(BOUNDARIES)
            request.branch.CopyFrom(
                BranchTarget(
                    conversation=turn.terms.conversation,
                    key_id=chain.key.key_id,
                    stride=STRIDE,
                    strides=strides,
                    digests=digests,
                )
            )
        give_up = self._clock() + seconds(turn.terms.lifetime)
        while True:
            sent = self._clock()
            wait = PREFILL_WAIT if turn.source is Source.PREFILL else max(0.0, turn.deadline - sent)
            request.wait.FromMilliseconds(int(wait * 1000))
            try:
                response = await self._claim_once(request)
            except errors.PrefillPending:
                if turn.answer is not None or self._clock() > give_up:
                    raise
                await self._prove(turn)  # whoever gave prefill up may reach the router only, or not even that
                continue
            claim = Claim(request.claim_id, response.lease, sent + seconds(response.ttl))
            self._renewals[claim.claim_id] = asyncio.create_task(self._renew(claim))
            return claim, chain

    async def _claim_once(self, request: ClaimLeaseRequest) -> ClaimLeaseResponse:
        if (credential := self._session.credential) is None:
            raise errors.Unavailable("no session with the registry", reason="NO_SESSION")
        request.credential.CopyFrom(credential)
        return await self._registry.claim_lease(request)

    def _usable(self, claim: Claim, chain: Chain) -> Answer:
        handle = claim.lease.handle
        if handle.body_format != self._codec.format:
            return Answer(miss="FORMAT_UNKNOWN")
        if handle.engine == self._engine:
            return Answer(miss="OWN_LEASE")  # the local prefix cache has what can be had
        if handle.chain.key_id != chain.key.key_id:
            return Answer(miss="DIGEST_KEY_DIFFERS")
        proved = chain.proved(handle.chain, handle.token_count)
        if not proved:
            return Answer(miss="NO_MATCH")
        try:
            return Answer(claim, proved, self._codec.decode(handle.body))
        except BadBodyError as error:
            log.warning("handle not readable", lease_id=claim.lease.lease_id, why=str(error))
            return Answer(miss="BODY_UNREADABLE")

    async def _renew(self, claim: Claim) -> None:
        """Renews until finished; a claim that cannot be renewed is good until its end all the same."""
        left = claim.end - self._clock()  # of a claim that waited, less than it got: that counts from the asking
        while True:
            pause = max(MIN_RENEWAL, left / 3)
            await asyncio.sleep(pause)
            if (credential := self._session.credential) is None:
                continue
            sent = self._clock()
            try:
                answer = await self._registry.renew_claim(
                    RenewClaimRequest(credential=credential, claim_id=claim.claim_id), timeout=pause
                )
            except (errors.Unavailable, errors.DeadlineExceeded):
                continue
            except errors.KvleaseError as error:
                log.info("claim lost", lease_id=claim.lease.lease_id, reason=error.reason)
                return
            left = seconds(answer.ttl)
            claim.extend(sent, left)
