"""A router that takes the first engines that fit, and that stands in for decode: a completed turn leaves a lease."""

import base64
import hashlib
import hmac
import time
import uuid
from dataclasses import dataclass

from google.protobuf.message import Message

from kvlease.client.convert import engine_ref
from kvlease.client.errors import IdTaken, IncarnationMismatch, ModelNotFound, NoEngine, TicketForged, TicketNotFound
from kvlease.client.requests import duration
from kvlease.client.testing.registry import Clock, FakeRegistry
from kvlease.client.testing.server import FakeServer, Unary
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2

KEY = b"a key for tests"
LIFETIME = duration(300.0)
OVER = (router_pb2.TICKET_STATE_COMPLETED, router_pb2.TICKET_STATE_CANCELLED)


@dataclass(slots=True)
class _Routed:
    """A turn, when it was routed, and what its prompt was said to measure."""

    answer: router_pb2.RouteResponse
    ticket: router_pb2.Ticket
    routed: float
    prompt_tokens: int

    def is_over_for(self, request: router_pb2.RouteRequest) -> bool:
        """Tells whether a retry needs another ticket; refuses one for something else."""
        terms = self.ticket.terms
        if (terms.conversation.conversation_id, self.ticket.model) != (request.conversation_id, request.model):
            raise IdTaken("the request id was used for another turn")
        return self.ticket.state in OVER or any(ref in request.exclude for ref in (terms.prefill, terms.decode))


class FakeRouter(FakeServer):
    """Serves Route, ResolveTicket, CompleteTicket, CancelTicket, GetTicket and ListTickets."""

    def __init__(self, registry: FakeRegistry, *, clock: Clock = time.monotonic) -> None:
        """Routes to the engines of *registry*, and grants its leases there. Starts nothing."""
        unary: dict[str, Unary] = {
            "Route": self._route,
            "ResolveTicket": self._resolve_ticket,
            "CompleteTicket": self._complete_ticket,
            "CancelTicket": self._cancel_ticket,
            "GetTicket": self._get_ticket,
            "ListTickets": self._list_tickets,
        }
        super().__init__("kvlease.v1.RoutingService", router_pb2, unary)
        self._registry = registry
        self._clock = clock
        self._by_request: dict[tuple[str, str], _Routed] = {}

    def _route(self, request: router_pb2.RouteRequest, tenant: str) -> Message:
        key = (tenant, request.request_id)
        earlier = self._by_request.get(key)
        if earlier is None or earlier.is_over_for(request):
            self._by_request[key] = self._choose(request, tenant)
        return self._by_request[key].answer

    def _choose(self, request: router_pb2.RouteRequest, tenant: str) -> _Routed:
        leases = self._registry.leases(request.conversation_id, tenant=tenant) if request.conversation_id else []
        owners = [lease.handle.engine for lease in leases]
        engines = [e.engine for e in self._registry.engines.values() if e.healthy and not e.draining]
        serving = [engine for engine in engines if request.model in engine.models]
        if engines and not serving:
            raise ModelNotFound(f"no engine serves {request.model}", metadata={"model": request.model})
        fit = [engine for engine in serving if engine.ref not in request.exclude]
        decodes = [engine for engine in fit if engine.role != registry_pb2.ENGINE_ROLE_PREFILL]
        if not decodes:
            raise NoEngine("no decode engine fits", metadata={"model": request.model})
        decode = next((engine for engine in decodes if engine.ref in owners), decodes[0])
        prefills = [e for e in fit if e.role != registry_pb2.ENGINE_ROLE_DECODE and e.ref != decode.ref]
        terms = router_pb2.TicketTerms(
            ticket_id=uuid.uuid4().hex,
            conversation=lease_pb2.ConversationKey(tenant=tenant, conversation_id=request.conversation_id),
            mode=router_pb2.ROUTE_MODE_PREFILL_DECODE if prefills else router_pb2.ROUTE_MODE_DECODE_ONLY,
            prefill=prefills[0].ref if prefills else None,
            decode=decode.ref,
            base_generation=max((lease.generation for lease in leases), default=0),
            lifetime=LIFETIME,
        )
        leased = max((lease.handle.token_count for lease in leases), default=0)
        answer = router_pb2.RouteResponse(
            ticket=_sign(terms),
            ticket_id=terms.ticket_id,
            mode=terms.mode,
            prefill=_endpoint(prefills[0]) if prefills else None,
            decode=_endpoint(decode),
            leased_tokens=leased,
            ttl=LIFETIME,
        )
        ticket = router_pb2.Ticket(
            terms=terms, state=router_pb2.TICKET_STATE_ROUTED, model=request.model, leased_tokens=leased
        )
        return _Routed(answer, ticket, self._clock(), request.prompt_tokens)

    def _find(self, ticket: str, tenant: str) -> _Routed:
        """Finds the turn of a signed ticket, or of a ticket's name."""
        for routed in self._by_request.values():
            terms = routed.ticket.terms
            if ticket in (routed.answer.ticket, terms.ticket_id) and terms.conversation.tenant == tenant:
                return routed
        raise TicketNotFound("no such ticket")

    def _resolve_ticket(self, request: router_pb2.ResolveTicketRequest, tenant: str) -> Message:
        _check(request.ticket)
        terms = self._find(request.ticket, tenant).ticket.terms
        legs = {engine_ref(terms.prefill): router_pb2.LEG_PREFILL, engine_ref(terms.decode): router_pb2.LEG_DECODE}
        leg = legs.get(engine_ref(request.engine))
        if leg is None:
            raise IncarnationMismatch("the ticket names other engines")
        return router_pb2.ResolveTicketResponse(terms=terms, leg=leg, prefill_state=router_pb2.PREFILL_STATE_PENDING)

    def _complete_ticket(self, request: router_pb2.CompleteTicketRequest, tenant: str) -> Message:
        _check(request.ticket)
        routed = self._find(request.ticket, tenant)
        ticket = routed.ticket
        if ticket.state not in OVER:
            ticket.state = router_pb2.TICKET_STATE_COMPLETED
            reused = min(ticket.leased_tokens, routed.prompt_tokens)
            ticket.report.CopyFrom(
                lease_pb2.PrefillReport(
                    prompt_tokens=routed.prompt_tokens,
                    reused_tokens=reused,
                    computed_tokens=routed.prompt_tokens - reused,
                )
            )
            if conversation_id := ticket.terms.conversation.conversation_id:
                owner = engine_ref(ticket.terms.decode)
                self._registry.grant(conversation_id, engine=owner, tokens=routed.prompt_tokens, tenant=tenant)
        return router_pb2.CompleteTicketResponse(report=ticket.report if ticket.HasField("report") else None)

    def _cancel_ticket(self, request: router_pb2.CancelTicketRequest, tenant: str) -> Message:
        _check(request.ticket)
        ticket = self._find(request.ticket, tenant).ticket
        if ticket.state not in OVER and request.leg != router_pb2.LEG_PREFILL:
            ticket.state = router_pb2.TICKET_STATE_CANCELLED
        return router_pb2.CancelTicketResponse()

    def _get_ticket(self, request: router_pb2.GetTicketRequest, tenant: str) -> Message:
        return router_pb2.GetTicketResponse(ticket=self._shown(self._find(request.ticket_id, tenant)))

    def _list_tickets(self, request: router_pb2.ListTicketsRequest, tenant: str) -> Message:
        keys = [routed.ticket.terms.conversation for routed in self._by_request.values()]
        mine = [key.tenant == tenant and request.conversation_id in ("", key.conversation_id) for key in keys]
        found = [routed for routed, wanted in zip(self._by_request.values(), mine, strict=True) if wanted]
        newest = found[::-1][: request.page_size or 100]
        return router_pb2.ListTicketsResponse(tickets=map(self._shown, newest))

    def _shown(self, routed: _Routed) -> router_pb2.Ticket:
        ticket = router_pb2.Ticket()
        ticket.CopyFrom(routed.ticket)
        ticket.age.CopyFrom(duration(self._clock() - routed.routed))
        return ticket


def _endpoint(engine: registry_pb2.Engine) -> router_pb2.Endpoint:
    return router_pb2.Endpoint(
        engine=engine.ref,
        http_url=engine.http_url,
        data_parallel_rank=engine.data_parallel_rank,
        data_parallel_size=engine.data_parallel_size,
    )


def _sign(terms: router_pb2.TicketTerms) -> str:
    body = f"kvt1.{_text(terms.SerializeToString())}"
    return f"{body}.{_text(hmac.digest(KEY, body.encode(), hashlib.sha256)[:16])}"


def _check(ticket: str) -> None:
    body, _, proof = ticket.rpartition(".")
    if proof != _text(hmac.digest(KEY, body.encode(), hashlib.sha256)[:16]):
        raise TicketForged("the ticket's signature is wrong")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
