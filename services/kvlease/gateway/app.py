"""The routes."""

import asyncio
import time
from http import HTTPStatus
from typing import Protocol
from urllib.parse import unquote

import msgspec

from kvlease.client import trace
from kvlease.client.errors import KvleaseError
from kvlease.gateway.errors import ApiError, bad_request, unavailable
from kvlease.gateway.http.connection import Handler
from kvlease.gateway.http.message import JSON, Request
from kvlease.gateway.http.reply import Reply
from kvlease.gateway.identity import checked
from kvlease.gateway.metrics import CONTENT_TYPE
from kvlease.gateway.plane import Plane
from kvlease.gateway.prompt import CHAT, COMPLETIONS, read_prompt
from kvlease.gateway.renewal import InFlight
from kvlease.gateway.status.routes import StatusPage
from kvlease.gateway.tenancy import Tenancy
from kvlease.gateway.turn import Turn
from kvlease.rpc.tracing import OFF, Span, Spans
from kvlease.v1 import registry_pb2

_CONVERSATIONS = "/v1/conversations/"
_TIMEOUT = 2.0


class EndsConversations(Protocol):
    """The registry's part."""

    async def end_conversation(
        self,
        request: registry_pb2.EndConversationRequest,
        *,
        timeout: float,  # noqa: ASYNC109 - the client's
        tenant: str,
    ) -> registry_pb2.EndConversationResponse: ...


class App:
    """Answers every request, with an error in OpenAI's shape if need be."""

    def __init__(
        self,
        plane: Plane,
        registry: EndsConversations,
        in_flight: InFlight,
        tenancy: Tenancy,
        page: StatusPage,
        *,
        spans: Spans = OFF,
    ) -> None:
        self._plane = plane
        self._registry = registry
        self._in_flight = in_flight
        self._tenancy = tenancy
        self._spans = spans
        self._started = int(time.time())
        self._routes: dict[str, dict[str, Handler]] = {
            CHAT: {"POST": self._complete},
            COMPLETIONS: {"POST": self._complete},
            "/v1/models": {"GET": self._models},
            "/health": {"GET": self._health},
            "/metrics": {"GET": self._metrics},
            _CONVERSATIONS: {"DELETE": self._end_conversation},
            "/": {"GET": self._to_page},
            "/ui/": {"GET": self._to_page},
            **page.routes,
        }

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Answers one request."""
        route = _CONVERSATIONS if request.path.startswith(_CONVERSATIONS) else request.path
        acts = self._routes.get(route)
        with self._plane.metrics.in_flight.track_inprogress():
            try:
                await _act(acts, request)(request, reply)
            except ApiError as error:
                reply.send(error.status, error.headers(), error.body())
            except asyncio.CancelledError:
                self._plane.metrics.disconnects.inc()
                raise
        self._plane.metrics.answered(route if acts else "other", reply.status)

    async def _complete(self, request: Request, reply: Reply) -> None:
        name = f"{request.method} {request.path}"
        facts = {"http.request.method": request.method, "http.route": request.path}
        with self._spans.serving(name, _trace(request), facts) as span:
            try:
                await self._serve(request, reply, span)
            except ApiError as error:
                span.note({"http.response.status_code": int(error.status)})
                if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    span.fail(str(error))
                raise
            span.note({"http.response.status_code": reply.status})

    async def _serve(self, request: Request, reply: Reply, span: Span) -> None:
        tenant = self._tenancy(request)
        prompt = read_prompt(request)
        turn = Turn(self._plane, request, reply, prompt, tenant=tenant, span=span)
        with self._tenancy.running(tenant):
            if not prompt.conversation:
                await turn.run()
                return
            with self._in_flight.holding(tenant, prompt.conversation):
                await turn.run()

    async def _models(self, request: Request, reply: Reply) -> None:
        self._tenancy(request)
        models = [
            {"id": name, "object": "model", "created": self._started, "owned_by": "kvlease"}
            for name in self._plane.directory.models()
        ]
        _send(reply, HTTPStatus.OK, {"object": "list", "data": models})

    async def _health(self, _request: Request, reply: Reply) -> None:
        if not self._plane.directory.models():
            raise unavailable("no healthy decode engine is known")
        _send(reply, HTTPStatus.OK, {"status": "ok"})

    async def _to_page(self, _request: Request, reply: Reply) -> None:
        reply.send(HTTPStatus.TEMPORARY_REDIRECT, [(b"location", b"/ui")], b"")

    async def _metrics(self, _request: Request, reply: Reply) -> None:
        reply.send(HTTPStatus.OK, [(b"content-type", CONTENT_TYPE)], self._plane.metrics.exposition())

    async def _end_conversation(self, request: Request, reply: Reply) -> None:
        tenant = self._tenancy(request)
        name = unquote(request.path.removeprefix(_CONVERSATIONS))
        if not checked(name, "conversation id"):
            raise bad_request("no conversation id was given")
        try:
            ended = await self._registry.end_conversation(
                registry_pb2.EndConversationRequest(conversation_id=name), timeout=_TIMEOUT, tenant=tenant
            )
        except KvleaseError as error:
            raise unavailable(f"the conversation was not ended: {error}") from error
        _send(
            reply,
            HTTPStatus.OK,
            {"id": name, "object": "conversation.deleted", "deleted": True, "leases": ended.leases},
        )


def refuse(reply: Reply, status: HTTPStatus, reason: str) -> None:
    """Answers a request that could not be read."""
    error = ApiError(status, reason)
    reply.send(error.status, error.headers(), error.body())


def _act(acts: dict[str, Handler] | None, request: Request) -> Handler:
    """Returns what answers the request. Raises ApiError."""
    if acts is None:
        raise ApiError(HTTPStatus.NOT_FOUND, f"there is nothing at {request.path[:256]}")
    act = acts.get("GET" if request.method == "HEAD" else request.method)
    if act is None:
        allowed = ", ".join(acts)
        reason = f"{request.method} is not allowed here: {allowed} is"
        raise ApiError(HTTPStatus.METHOD_NOT_ALLOWED, reason, allow=allowed)
    return act


def _trace(request: Request) -> trace.Headers:
    """Returns the trace that the client works for."""
    parent = request.header(b"traceparent")
    if parent is None:
        return ()
    return trace.read(((trace.PARENT, parent), (trace.STATE, request.header(b"tracestate") or b"")))


def _send(reply: Reply, status: HTTPStatus, value: object) -> None:
    reply.send(status, [JSON], msgspec.json.encode(value))
