"""One connection to an engine."""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from kvlease.gateway.http.answer import Answer, Lost, Stale
from kvlease.gateway.http.message import Headers
from kvlease.gateway.http.sockets import keep_alive

_FINAL = 200  # statuses below are interim answers


class UpstreamConnection(asyncio.Protocol):
    """A connection to an engine; carries one request at a time."""

    def __init__(self, release: "Callable[[UpstreamConnection], None]") -> None:
        """Calls *release* whenever an answer is whole and the connection may carry another request."""
        self.closed = False
        self.peer: object = None
        """Who is asked."""
        self.idle_since = 0.0
        self._release = release
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[Answer] | None = None
        self._answer: Answer | None = None
        self._headers: Headers = []
        self._paused = False
        self._received = 0
        self._pieces: list[bytes] = []
        self._quiet = Quiet()

    async def ask(self, request: bytes, peer: object) -> Answer:
        """Sends a request and waits for the head of its answer. Raises Lost."""
        if self._gone:
            raise Stale("the engine closed the connection")
        self.peer = peer
        kept, before = self._received > 0, self._received
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        self._transport.write(request)
        try:
            return await waiter
        except Lost as error:
            if kept and self._received == before:
                raise Stale(str(error)) from error
            raise
        except asyncio.CancelledError:
            self._take_back(waiter)
            raise

    @property
    def waiting(self) -> bool:
        """Whether a request was sent and the head of its answer has not come."""
        return self._waiter is not None

    def silence(self, now: float) -> float:
        """Returns for how many seconds nothing has come though something is due, as far as calls of this can tell."""
        due = not self._paused and (self.waiting or self._answer is not None)
        return self._quiet.since(now, self._received if due else None)

    def pause(self) -> None:
        """Reads no more for now."""
        if not self._paused and not self._gone:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Reads on."""
        if self._paused and not self._gone:
            self._paused = False
            self._transport.resume_reading()

    def abort(self, reason: str = "") -> None:
        """Closes at once; what is asked here fails with the reason, if there is one."""
        self.closed = True
        if reason:
            self._fail(Lost(reason))
        self._transport.abort()

    # asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        keep_alive(transport)

    def data_received(self, data: bytes) -> None:
        self._received += 1
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.abort(f"the engine's answer is no HTTP: {error}")
        self._hand_over()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._fail(Lost(f"the engine closed the connection: {exc or 'end of stream'}"))

    # the parser's calls

    def on_message_begin(self) -> None:
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < _FINAL or self._waiter is None or self._waiter.done():
            return
        self._answer = Answer(status, self._headers, self)
        self._waiter.set_result(self._answer)
        self._waiter = None  # who asked may come to know of it only after the next one has asked

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        self._hand_over()
        answer, self._answer = self._answer, None
        if answer is None:
            return
        self.resume()
        answer.finish(None)
        if self._parser.should_keep_alive():
            self._release(self)
        else:
            self.abort()

    @property
    def _gone(self) -> bool:
        """Whether the connection is at its end, be it that this was not told yet: uvloop then raises at any use."""
        return self.closed or self._transport.is_closing()

    def _hand_over(self) -> None:
        """Hands over what one read has brought, in one piece: whoever passes it on then writes once."""
        pieces = self._pieces
        if pieces and self._answer is not None:
            self._answer.take(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        pieces.clear()

    def _take_back(self, waiter: asyncio.Future[Answer]) -> None:
        """Closes the connection unless it has gone on to the next request."""
        if waiter is self._waiter:
            self.abort()
        elif not waiter.cancelled() and not waiter.exception():
            waiter.result().abort()

    def _fail(self, error: Lost) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        if self._answer is not None:
            self._answer.finish(error)


class Quiet:
    """Tells for how long a number has not changed, asked now and then."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._since = 0.0

    def since(self, now: float, number: int | None) -> float:
        """Returns the seconds since *number* was first seen; None never counts as unchanged."""
        if number is None or number != self._number:
            self._number, self._since = number, now
        return now - self._since
