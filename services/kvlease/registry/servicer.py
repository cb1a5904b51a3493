"""The RPCs: convert, call the store, convert. Who may call what is said in `kvlease.rpc.access`."""

import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc
import structlog

from kvlease.registry import answers, requests
from kvlease.registry.rivals import Rivals
from kvlease.registry.rules import Timing
from kvlease.registry.store import Store
from kvlease.registry.turns import TurnOutcome
from kvlease.rpc import Role, RoleDenied, caller
from kvlease.v1 import lease_pb2, registry_pb2, registry_pb2_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

log = structlog.get_logger()


class RegistryServicer(registry_pb2_grpc.RegistryServiceServicer):
    """kvlease.v1.RegistryService over a store."""

    def __init__(self, store: Store, timing: Timing) -> None:
        self._store = store
        self._timing = timing
        self._rivals = Rivals(time.monotonic)
        self._logs = log.bind().is_enabled_for(logging.DEBUG)
        """Whether every read is to be logged; to ask the logger each time costs more than to end a claim."""

    async def OpenSession(
        self, request: registry_pb2.OpenSessionRequest, context: Context
    ) -> registry_pb2.OpenSessionResponse:
        engine = requests.engine(request)
        caller(context).speak_for(engine.ref.engine_id)
        opened = await self._store.open_session(engine)
        log.info("session opened", engine=engine.ref.engine_id, incarnation=engine.ref.incarnation)
        self._rivals.opened(engine.ref, request.engine.http_url)
        return answers.opened(opened, self._timing)

    async def Heartbeat(
        self, request: registry_pb2.HeartbeatRequest, _context: Context
    ) -> registry_pb2.HeartbeatResponse:
        beat = requests.beat(request)
        return answers.heartbeat(await self._store.heartbeat(requests.credential(request.credential), beat))

    async def CloseSession(
        self, request: registry_pb2.CloseSessionRequest, _context: Context
    ) -> registry_pb2.CloseSessionResponse:
        await self._store.close_session(requests.credential(request.credential))
        log.info("session closed", session=request.credential.session_id)
        return registry_pb2.CloseSessionResponse()

    async def AnnounceLeases(
        self, request: registry_pb2.AnnounceLeasesRequest, _context: Context
    ) -> registry_pb2.AnnounceLeasesResponse:
        leases = requests.announced(request)
        results = await self._store.announce(requests.credential(request.credential), leases)
        log.info("leases announced", leases=len(results), kept=sum(x.kept for x in results))
        return answers.announced(results)

    async def GrantLease(
        self, request: registry_pb2.GrantLeaseRequest, _context: Context
    ) -> registry_pb2.GrantLeaseResponse:
        terms, report = requests.grant(request)
        return answers.granted(await self._store.grant(requests.credential(request.credential), terms, report))

    async def RenewLeases(
        self, request: registry_pb2.RenewLeasesRequest, context: Context
    ) -> registry_pb2.RenewLeasesResponse:
        tenant = caller(context).tenant
        return answers.renewed(await self._store.renew(tenant, requests.renewals(request)))

    async def ReleaseLease(
        self, request: registry_pb2.ReleaseLeaseRequest, _context: Context
    ) -> registry_pb2.ReleaseLeaseResponse:
        lease_id, wait = requests.release(request)
        released = await self._store.release(requests.credential(request.credential), lease_id, wait)
        status = registry_pb2.RELEASE_STATUS_RELEASED if released else registry_pb2.RELEASE_STATUS_CLAIMED
        return registry_pb2.ReleaseLeaseResponse(status=status)

    async def ReleaseAll(
        self, request: registry_pb2.ReleaseAllRequest, _context: Context
    ) -> registry_pb2.ReleaseAllResponse:
        wait = requests.release_all(request)
        released, claimed = await self._store.release_all(requests.credential(request.credential), wait)
        log.info("leases released", released=len(released), claimed=len(claimed))
        return registry_pb2.ReleaseAllResponse(released_lease_ids=released, claimed_lease_ids=claimed)

    async def EndConversation(
        self, request: registry_pb2.EndConversationRequest, context: Context
    ) -> registry_pb2.EndConversationResponse:
        tenant = caller(context).tenant
        ended = await self._store.end_conversation(requests.conversation(request, tenant))
        return registry_pb2.EndConversationResponse(leases=ended)

    async def ClaimLease(
        self, request: registry_pb2.ClaimLeaseRequest, _context: Context
    ) -> registry_pb2.ClaimLeaseResponse:
        claim_id, target, wait = requests.claim(request)
        return answers.claimed(await self._store.claim(requests.credential(request.credential), claim_id, target, wait))

    async def RenewClaim(
        self, request: registry_pb2.RenewClaimRequest, _context: Context
    ) -> registry_pb2.RenewClaimResponse:
        claim_id = requests.claim_id(request)
        ttl = await self._store.renew_claim(requests.credential(request.credential), claim_id)
        return answers.renewed_claim(ttl)

    async def FinishClaim(
        self, request: registry_pb2.FinishClaimRequest, _context: Context
    ) -> registry_pb2.FinishClaimResponse:
        claim_id = requests.claim_id(request)
        lease_id = await self._store.finish_claim(requests.credential(request.credential), claim_id)
        if self._logs:
            outcome = registry_pb2.ReadOutcome.Name(request.outcome).removeprefix("READ_OUTCOME_")
            log.debug("claim finished", lease=lease_id, outcome=outcome, tokens=request.tokens, bytes=request.bytes)
        return registry_pb2.FinishClaimResponse()

    async def EndTurn(self, request: registry_pb2.EndTurnRequest, context: Context) -> registry_pb2.EndTurnResponse:
        end = requests.turn_end(request)
        if end.outcome is TurnOutcome.NOTHING_KEPT:
            caller(context).speak_for(request.decode.engine_id)
        elif Role.ROUTER not in caller(context).roles:
            raise RoleDenied([Role.ROUTER])
        report = await self._store.end_turn(end)
        if report is None:
            return registry_pb2.EndTurnResponse()
        return registry_pb2.EndTurnResponse(report=lease_pb2.PrefillReport.FromString(report))

    async def RevokeLeases(
        self, request: registry_pb2.RevokeLeasesRequest, _context: Context
    ) -> registry_pb2.RevokeLeasesResponse:
        selection = requests.selection(request)
        revoked = await self._store.revoke(selection)
        log.info("leases revoked", leases=revoked, engine=selection.engine_id)
        return registry_pb2.RevokeLeasesResponse(leases=revoked)

    async def DrainEngine(
        self, request: registry_pb2.DrainEngineRequest, _context: Context
    ) -> registry_pb2.DrainEngineResponse:
        engine_id = requests.drain(request)
        await self._store.drain(engine_id, undo=request.undo)
        log.info("engine drained", engine=engine_id, undone=request.undo)
        return registry_pb2.DrainEngineResponse()

    async def GetLease(self, request: registry_pb2.GetLeaseRequest, context: Context) -> registry_pb2.GetLeaseResponse:
        tenant = caller(context).tenant
        found = await self._store.get(tenant, requests.lease_id(request))
        return registry_pb2.GetLeaseResponse(lease=answers.lease(found, request.view))

    async def ListLeases(
        self, request: registry_pb2.ListLeasesRequest, context: Context
    ) -> registry_pb2.ListLeasesResponse:
        wanted, after, size = requests.page(request, caller(context).tenant)
        whole = request.view == registry_pb2.LEASE_VIEW_FULL
        return answers.page(await self._store.page(wanted, after, size, whole=whole), request.view)

    async def LocateConversations(
        self, request: registry_pb2.LocateConversationsRequest, _context: Context
    ) -> registry_pb2.LocateConversationsResponse:
        return answers.located(await self._store.locate(requests.located(request)))

    async def WatchLeases(
        self, request: registry_pb2.WatchLeasesRequest, context: Context
    ) -> AsyncGenerator[registry_pb2.WatchLeasesResponse]:
        wanted = requests.watched(request, caller(context).tenant)
        async with aclosing(self._store.watch(wanted)) as events:
            async for happened in events:
                yield answers.happened(happened)

    async def ListEngines(
        self, request: registry_pb2.ListEnginesRequest, _context: Context
    ) -> registry_pb2.ListEnginesResponse:
        model = requests.model(request)
        shown = await self._store.engines(model, include_lost=request.include_lost)
        return registry_pb2.ListEnginesResponse(
            engines=[answers.engine(x, self._rivals.of(x.engine.ref.engine_id)) for x in shown]
        )
