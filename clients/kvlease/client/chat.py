"""Turns that the client drives itself, without a gateway: routed, sent to prefill and decode with one ticket, answered.

A turn that fails before anything was said is tried again elsewhere: nobody has seen it. After that nothing is repeated.
Without a router, a decode engine that was there a moment ago computes the prompt; nothing is reused or kept then.
"""

import asyncio
import json
import logging
import socket
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import httpx2

from kvlease.client.answer import Chunk, Events, Gathered
from kvlease.client.completions import CHAT, Ask, decode_leg, prefill_leg, stop_reason
from kvlease.client.errors import (
    AnswerBroken,
    DeadlineExceeded,
    EngineError,
    EngineRefused,
    EngineUnreachable,
    KvleaseError,
    NoEngine,
    RegistryUnreachable,
    Unavailable,
)
from kvlease.client.types import Endpoint, EngineRef, Leg, PrefillReport, RouteMode, StopReason, Turn

TRIES = 3
CONNECT_TIMEOUT = 2.0
ROUTE_TIMEOUT = 5.0
ROUTE_TIMEOUT_IF_KNOWN = 1.0  # where a decode engine is known that can do without
COMPLETE_TIMEOUT = 1.0
CANCEL_PAUSE = 0.5
LAST_WORDS = 2.0
# vLLM closes a connection that was idle for 5 s; ours go first, so that few requests meet a closing one.
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=3.0)
# A host that is gone without a word is noticed within half a minute.
_KEEPALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)  # not everywhere
]
_BYTES_PER_TOKEN = 4

log = logging.getLogger(__name__)
T = TypeVar("T")


class Routes(Protocol):
    """The router's part in a turn."""

    async def route(
        self,
        model: str,
        *,
        conversation_id: str,
        prompt_tokens: int,
        exclude: Sequence[EngineRef],
        request_id: str,
        timeout: float,
    ) -> Turn: ...

    async def complete(
        self, ticket: str, *, stop_reason: StopReason | None, timeout: float
    ) -> PrefillReport | None: ...

    async def cancel(self, ticket: str, *, leg: Leg | None = None) -> None: ...


class Engines:
    """What all turns of a client share. Belongs to the event loop that it is made in."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.known: dict[str, Endpoint] = {}
        """The decode engine that answered last, by model."""
        self.http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            transport=httpx2.AsyncHTTPTransport(limits=_LIMITS, socket_options=_KEEPALIVE),
            trust_env=False,  # a proxy set for the internet is no way to engines
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: WeakSet[Answer] = WeakSet()

    def serve(self, ask: Ask) -> "Answer":
        """Begins a turn."""
        answer = Answer(self, ask)
        self._open.add(answer)
        return answer

    def later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs *work*, which must not raise; nobody need wait for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Takes back turns that nobody reads to their end, gives last words a moment, and closes all connections."""
        for answer in list(self._open):
            with suppress(RuntimeError):  # it is being read: its reader hears of the connection's end
                await answer.aclose()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WORDS)
        for task in self._tasks:
            task.cancel()
        await self.http.aclose()


class Answer(AsyncIterator[Chunk]):
    """A turn's answer: to be iterated over once, and read when that is over.

    Nothing is sent before the first chunk is asked for. Whoever leaves early closes it, or later the client: then both
    engines drop the request.
    """

    def __init__(self, engines: Engines, ask: Ask) -> None:
        self.report: PrefillReport | None = None
        """How the prompt's KV came about; None: not known, or decode computed it all."""
        self._engines = engines
        self._ask = ask
        self._gathered = Gathered(ask.body.get("n") or 1)
        self._chunks = self._serve()

    @property
    def message(self) -> dict[str, Any]:
        """The assistant's message (of the first choice), as it goes into the next turn's messages."""
        return self._gathered.message

    @property
    def text(self) -> str:
        """Its content so far."""
        return self.message["content"] or ""

    @property
    def finish_reason(self) -> str | None:
        """Why the first choice ended; None: it has not."""
        return self._gathered.finish_reasons.get(0)

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """What the engine counted, if `stream_options` asked for it."""
        return self._gathered.usage

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> Chunk:
        return await anext(self._chunks)

    async def aclose(self) -> None:
        """Takes the turn back unless it is over."""
        await self._chunks.aclose()

    async def _serve(self) -> AsyncGenerator[Chunk, None]:
        deadline = asyncio.get_running_loop().time() + self._ask.timeout
        failed: list[EngineRef] = []
        while True:
            name = f"{uuid.uuid4().hex}-{len(failed)}"
            turn = await _before(deadline, self._plan(name, failed))
            try:
                async with aclosing(self._try(turn, name, deadline)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except EngineError as error:
                log.warning("decode failed on %s: %s", turn.decode.engine.engine_id, error)
                failed.append(turn.decode.engine)
                if not _may_be_tried_elsewhere(error, self._gathered) or len(failed) == TRIES:
                    raise
                self._gathered = Gathered(self._ask.body.get("n") or 1)
            else:
                self._engines.known[self._ask.model] = turn.decode
                return

    async def _plan(self, name: str, failed: Sequence[EngineRef]) -> Turn:
        """Asks the router, for other engines than those that failed, if there are any."""
        known = self._engines.known.get(self._ask.model)
        timeout = ROUTE_TIMEOUT_IF_KNOWN if known else ROUTE_TIMEOUT
        try:
            try:
                return await self._route(name, failed, timeout)
            except NoEngine:
                if not failed:
                    raise
            return await self._route(f"{name}-again", (), timeout)
        except (Unavailable, DeadlineExceeded) as error:
            if known is None or type(error) not in (Unavailable, DeadlineExceeded, RegistryUnreachable):
                raise
            log.warning("turn not routed, sent to %s: %s", known.engine.engine_id, error)
            return _unrouted(known)

    async def _route(self, name: str, exclude: Sequence[EngineRef], timeout: float) -> Turn:
        ask = self._ask
        return await self._engines.routes.route(
            ask.model,
            conversation_id="" if ask.alone else ask.conversation_id,
            prompt_tokens=len(json.dumps(ask.body.get("messages"))) // _BYTES_PER_TOKEN,
            exclude=exclude,
            request_id=name,
            timeout=timeout,
        )

    async def _try(self, turn: Turn, name: str, deadline: float) -> AsyncGenerator[Chunk, None]:
        """Sends both legs and yields what decode says; its end is held back until the turn is completed."""
        prefill = self._engines.later(self._prefill(turn, name))
        answered = False
        held: list[Chunk] = []
        try:
            body = decode_leg(self._ask.body, "" if self._ask.alone else turn.ticket, _as_it_is)
            async with aclosing(self._said(turn.decode, f"{name}-decode", body, deadline)) as chunks:
                async for chunk in chunks:
                    if self._gathered.begun and not self._gathered.ended:
                        for each in (*held, chunk):
                            yield each
                        held.clear()
                    else:
                        held.append(chunk)
            answered = True
            self.report = await self._complete(turn)
            self._ask.answered()
        finally:
            prefill.cancel()
            if turn.ticket and not answered:
                self._engines.later(self._cancel(turn))
        for chunk in held:
            yield chunk

    async def _said(
        self, endpoint: Endpoint, request_id: str, body: Mapping[str, Any], deadline: float
    ) -> AsyncGenerator[Chunk, None]:
        """Yields decode's chunks to their end. Raises EngineError."""
        response = await _before(deadline, self._post(endpoint, request_id, body))
        try:
            stream, events = response.aiter_bytes(), Events()
            while data := await _before(deadline, anext(stream, b"")):
                for event in events.feed(data):
                    if chunk := self._gathered.add(event):
                        yield chunk
        except httpx2.TransportError as error:
            if not self._gathered.done:
                raise AnswerBroken(f"the answer of {endpoint.engine.engine_id} broke off: {error!r}") from error
        finally:
            await response.aclose()
        if not (self._gathered.ended and self._gathered.finish_reasons):
            raise AnswerBroken(f"the answer of {endpoint.engine.engine_id} ended without an end")

    async def _post(self, endpoint: Endpoint, request_id: str, body: Mapping[str, Any]) -> httpx2.Response:
        """Posts a leg; gives the answer once its head has come. Raises EngineUnreachable, EngineRefused."""
        headers = {**self._ask.headers, "x-request-id": request_id}
        if endpoint.data_parallel_size > 1:
            headers["x-data-parallel-rank"] = str(endpoint.data_parallel_rank)
        http = self._engines.http
        request = http.build_request("POST", endpoint.http_url.rstrip("/") + CHAT, json=body, headers=headers)
        try:
            response = await http.send(request, stream=True)
            if response.status_code != HTTPStatus.OK:
                said = (await response.aread()).decode(errors="replace")[:1000]
                raise EngineRefused(f"{endpoint.engine.engine_id} answered {said}", status=response.status_code)
        except httpx2.TransportError as error:
            raise EngineUnreachable(f"no answer from {endpoint.engine.engine_id}: {error!r}") from error
        return response

    async def _prefill(self, turn: Turn, name: str) -> None:
        """Has prefill compute the prompt; if it fails, decode is told to do without."""
        if turn.prefill is None or self._ask.alone:
            return
        body = prefill_leg(self._ask.body, turn.ticket, _as_it_is, chat=True)
        try:
            response = await self._post(turn.prefill, f"{name}-prefill", body)
            await response.aread()
        except (EngineError, httpx2.TransportError) as error:
            log.warning("prefill failed on %s: %s", turn.prefill.engine.engine_id, error)
            await self._cancel_prefill(turn)

    async def _complete(self, turn: Turn) -> PrefillReport | None:
        """Ends the turn at the router. Without it the turn ends all the same: its leases lapse by themselves."""
        if not turn.ticket:
            return None
        choice = isinstance(self._ask.body.get("tool_choice"), Mapping)
        stopped = stop_reason(set(self._gathered.finish_reasons.values()), names_tool=choice)
        try:
            return await self._engines.routes.complete(turn.ticket, stop_reason=stopped, timeout=COMPLETE_TIMEOUT)
        except KvleaseError as error:
            log.warning("ticket not completed: %s", error)
            return None

    async def _cancel(self, turn: Turn) -> None:
        try:
            await self._engines.routes.cancel(turn.ticket)
        except KvleaseError as error:
            log.warning("ticket not cancelled: %s", error)

    async def _cancel_prefill(self, turn: Turn) -> None:
        """Tells the router, at which decode waits, until it has heard or the turn is over."""
        while True:
            try:
                await self._engines.routes.cancel(turn.ticket, leg=Leg.PREFILL)
            except (Unavailable, DeadlineExceeded):
                await asyncio.sleep(CANCEL_PAUSE)
            except KvleaseError as error:
                log.warning("prefill not cancelled: %s", error)
                return
            else:
                return


def _unrouted(decode: Endpoint) -> Turn:
    """Makes a turn without a ticket: decode computes the prompt."""
    return Turn(
        ticket="", ticket_id="", mode=RouteMode.DECODE_ONLY, prefill=None, decode=decode, leased_tokens=0, ttl=0.0
    )


def _may_be_tried_elsewhere(error: EngineError, gathered: Gathered) -> bool:
    if isinstance(error, EngineRefused):
        return error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return not gathered.begun


async def _before(deadline: float, work: Awaitable[T]) -> T:
    """Waits for something until the deadline, an instant of the loop's clock. Raises DeadlineExceeded."""
    try:
        async with asyncio.timeout_at(deadline):
            return await work
    except TimeoutError as error:
        raise DeadlineExceeded("the turn was not answered in time") from error


def _as_it_is(value: object) -> object:
    return value
