"""The RPCs: convert, call, convert. Who may call what is said in `kvlease.rpc.access`."""

from collections.abc import Callable

from kvlease.router import convert
from kvlease.router.metrics import Metrics
from kvlease.router.router import Router
from kvlease.router.turns import Turns
from kvlease.rpc import caller
from kvlease.rpc.identity import Context
from kvlease.v1 import router_pb2
from kvlease.v1.router_pb2_grpc import RoutingServiceServicer

PAGE, MAX_PAGE = 100, 1000
SHARE = 0.7  # of what is left of a call's deadline, for the registry: the answer must still arrive in time


class RoutingServicer(RoutingServiceServicer):
    """RoutingService. Applications route and end turns of their tenant; engines resolve and publish."""

    def __init__(
        self, router: Router, turns: Turns, metrics: Metrics, *, wait: float, clock: Callable[[], float]
    ) -> None:
        """Gives the registry at most *wait* seconds per call."""
        self._router = router
        self._turns = turns
        self._metrics = metrics
        self._wait = wait
        self._clock = clock

    async def Route(self, request: router_pb2.RouteRequest, context: Context) -> router_pb2.RouteResponse:
        ask = convert.ask(request, caller(context).tenant, self._patience(context))
        record, decision = await self._router.route(ask)
        response = convert.route_response(record, decision, self._clock())
        self._metrics.routed(response.mode)
        return response

    async def ResolveTicket(
        self, request: router_pb2.ResolveTicketRequest, context: Context
    ) -> router_pb2.ResolveTicketResponse:
        engine = convert.caller("engine", request.engine)
        caller(context).speak_for(engine.engine_id)
        record = await self._turns.resolve(request.ticket, engine, convert.wait_of(request))
        return convert.resolve_response(record, engine)

    async def PublishPrefill(
        self, request: router_pb2.PublishPrefillRequest, context: Context
    ) -> router_pb2.PublishPrefillResponse:
        engine = convert.caller("engine", request.engine)
        caller(context).speak_for(engine.engine_id)
        self._turns.publish(request.ticket, engine, *convert.published(request))
        return router_pb2.PublishPrefillResponse()

    async def CompleteTicket(
        self, request: router_pb2.CompleteTicketRequest, context: Context
    ) -> router_pb2.CompleteTicketResponse:
        tenant, wait = caller(context).tenant, self._patience(context)
        report = await self._turns.complete(request.ticket, tenant, convert.stop_reason(request), wait)
        if report:
            self._metrics.prefilled(report)
        return router_pb2.CompleteTicketResponse(report=report)

    async def CancelTicket(
        self, request: router_pb2.CancelTicketRequest, context: Context
    ) -> router_pb2.CancelTicketResponse:
        end = self._turns.cancel_prefill if request.leg == router_pb2.LEG_PREFILL else self._turns.cancel
        await end(request.ticket, caller(context).tenant, self._patience(context))
        return router_pb2.CancelTicketResponse()

    async def GetTicket(self, request: router_pb2.GetTicketRequest, context: Context) -> router_pb2.GetTicketResponse:
        record = self._turns.known(request.ticket_id, caller(context).tenant)
        return router_pb2.GetTicketResponse(ticket=convert.ticket(record, self._clock()))

    async def ListTickets(
        self, request: router_pb2.ListTicketsRequest, context: Context
    ) -> router_pb2.ListTicketsResponse:
        limit = min(request.page_size or PAGE, MAX_PAGE)
        now = self._clock()
        records = self._turns.recent(caller(context).tenant, request.conversation_id, limit)
        return router_pb2.ListTicketsResponse(tickets=[convert.ticket(record, now) for record in records])

    def _patience(self, context: Context) -> float:
        left = context.time_remaining()
        return self._wait if left is None else min(self._wait, left * SHARE)
