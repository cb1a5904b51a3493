"""How one turn is served: routed, sent to prefill and decode with one ticket, answered, completed or taken back.

A turn that fails before anything was said is tried again elsewhere: nobody has seen it. After that nothing is repeated.
Without a router, a decode engine that was there a moment ago computes the prompt; nothing is reused or kept then.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2

from kvlease.client.answer import Chunk, Events, Gathered
from kvlease.client.completions import CHAT, Ask, decode_leg, prefill_leg, stop_reason
from kvlease.client.errors import (
    AnswerBroken,
    ClientClosed,
    DeadlineExceeded,
    EngineError,
    EngineRefused,
    EngineUnreachable,
    KvleaseError,
    NoEngine,
    RegistryUnreachable,
    Unavailable,
)
from kvlease.client.types import Endpoint, EngineRef, Leg, PrefillReport, RouteMode, Turn

if TYPE_CHECKING:
    from kvlease.client.chat import Engines

TRIES = 3
ROUTE_TIMEOUT = 5.0
ROUTE_TIMEOUT_IF_KNOWN = 1.0  # where a decode engine is known that can do without
COMPLETE_TIMEOUT = 1.0
CANCEL_PAUSE = 0.5
LAST_WORDS = 2.0
_BYTES_PER_TOKEN = 4

log = logging.getLogger(__name__)
T = TypeVar("T")


class Serving:
    """One turn. Nothing is sent before the first chunk is read; it is read by one task at a time.

    While it is open `Engines` has hold of it: so its generators are closed here, each by the one that it is in, and
    never by the garbage collector, which would close them all at once.
    """

    def __init__(self, engines: "Engines", ask: Ask) -> None:
        self.report: PrefillReport | None = None
        self.gathered = Gathered(ask.body.get("n") or 1)
        self.abandoned = False
        """Whether it is taken back because nobody can read it any more."""
        self._engines = engines
        self._ask = ask
        self._chunks = self._serve()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reading = False
        self._waiting: asyncio.Timeout | None = None
        self._over = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._last_words: asyncio.Task[None] | None = None

    async def read(self) -> Chunk:
        """Gives the next chunk. Raises StopAsyncIteration at the end, ClientClosed if it was taken back before."""
        if self._closing is not None:
            raise _taken_back()
        self._reading = True
        try:
            return await anext(self._chunks)
        except DeadlineExceeded:
            if self._closing is not None:
                raise _taken_back() from None
            raise
        except KvleaseError as error:
            self._ask.failed(error)
            raise
        finally:
            self._reading = False

    @property
    def conversation_id(self) -> str:
        return self._ask.conversation_id

    async def close(self) -> None:
        """Takes the turn back unless it is over, and gives the router a moment to hear of it."""
        if self._last_words is not None or not self._over.is_set():
            await asyncio.shield(self._closed())

    def abandon(self) -> None:
        """Takes the turn back, of which nobody can read any more. May be called from any thread."""
        self.abandoned = True
        if self._loop is not None and not self._over.is_set():
            with suppress(RuntimeError):  # the loop is closed, and all that was on it
                self._loop.call_soon_threadsafe(self._closed)

    def _closed(self) -> asyncio.Task[None]:
        """Gives the one task that closes it."""
        self._closing = self._closing or self._engines.later(self._close())
        return self._closing

    async def _close(self) -> None:
        if not self._reading:
            await self._chunks.aclose()
        elif self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())  # whoever reads it ends it
            await self._over.wait()
        if self._last_words is not None:
            await asyncio.wait({self._last_words}, timeout=LAST_WORDS)

    @contextmanager
    def _open(self) -> Iterator[None]:
        self._loop = asyncio.get_running_loop()
        self._engines.open.add(self)
        try:
            yield
        finally:
            self._over.set()
            if self._last_words is None:
                self._engines.open.discard(self)
            else:
                self._last_words.add_done_callback(lambda _: self._engines.open.discard(self))

    async def _serve(self) -> AsyncGenerator[Chunk, None]:
        deadline = asyncio.get_running_loop().time() + self._ask.timeout
        failed: list[EngineRef] = []
        with self._open():
            while True:
                name = f"{uuid.uuid4().hex}-{len(failed)}"
                turn = await self._before(deadline, self._plan(name, failed))
                try:
                    async with aclosing(self._try(turn, name, deadline)) as chunks:
                        async for chunk in chunks:
                            yield chunk
                except EngineError as error:
                    log.warning("decode failed on %s: %s", turn.decode.engine.engine_id, error)
                    failed.append(turn.decode.engine)
                    if not _may_be_tried_elsewhere(error, self.gathered) or len(failed) == TRIES:
                        raise
                    self.gathered = Gathered(self._ask.body.get("n") or 1)
                else:
                    self._engines.known[self._ask.model] = turn.decode
                    return

    async def _before(self, deadline: float, work: Awaitable[T]) -> T:
        """Waits for something until the deadline, an instant of the loop's clock. Raises DeadlineExceeded."""
        try:
            async with asyncio.timeout_at(deadline) as self._waiting:
                return await work
        except TimeoutError as error:
            raise DeadlineExceeded("the turn was not answered in time") from error
        finally:
            self._waiting = None

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
                    if self.gathered.begun and not self.gathered.ended:
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
                self._last_words = self._engines.later(self._cancel(turn))
        for chunk in held:
            yield chunk

    async def _said(
        self, endpoint: Endpoint, request_id: str, body: Mapping[str, Any], deadline: float
    ) -> AsyncGenerator[Chunk, None]:
        """Yields decode's chunks to their end. Raises EngineError."""
        response = await self._before(deadline, self._post(endpoint, request_id, body))
        try:
            stream, events = response.aiter_bytes(), Events()
            while data := await self._before(deadline, anext(stream, b"")):
                for event in events.feed(data):
                    if chunk := self.gathered.add(event):
                        yield chunk
        except httpx2.TransportError as error:
            if not self.gathered.done:
                raise AnswerBroken(f"the answer of {endpoint.engine.engine_id} broke off: {error!r}") from error
        finally:
            await response.aclose()
        if not (self.gathered.ended and self.gathered.finish_reasons):
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
            where = f"{endpoint.engine.engine_id} at {endpoint.http_url}"
            raise EngineUnreachable(f"no answer from {where}: {error!r}") from error
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
        stopped = stop_reason(set(self.gathered.finish_reasons.values()), names_tool=choice)
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


def _taken_back() -> ClientClosed:
    return ClientClosed("the answer was taken back: it was closed, or its conversation was left, before its end")


def _as_it_is(value: object) -> object:
    return value
