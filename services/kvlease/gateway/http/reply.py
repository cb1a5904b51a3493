"""The answer to one request, on its way out."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from kvlease.gateway.http.message import Headers, Request, head

_CLOSE = b"connection: close\r\n"


class Source(Protocol):
    """Where the bytes of an answer come from; held back while the client is slow to take them."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Reply:
    """Writes one answer: `send` whole, or `start`, `write` and `end` as it comes.

    What is written after the client has gone is dropped; the handler is cancelled then.
    """

    def __init__(self, transport: asyncio.Transport, request: Request, *, version: str, keep_alive: bool) -> None:
        self.keep_alive = keep_alive and version == "1.1"
        self.status = 0
        """0 until the answer has begun."""
        self.ended = False
        self._transport = transport
        self._bodiless = request.method == "HEAD"
        self._chunked = version == "1.1"
        self._head = b""
        self._paused = False
        self._source: Source | None = None
        self._on_end: Callable[[], None] | None = None

    @property
    def started(self) -> bool:
        """Whether the answer has begun."""
        return self.status != 0

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Sends a whole answer."""
        self.status = status
        rendered = head(status, headers, b"content-length: %d\r\n%b" % (len(body), self._connection()))
        self._put(rendered if self._bodiless else rendered + body)
        self._finish()

    def start(self, status: int, headers: Headers) -> None:
        """Begins an answer of unknown length. Its head goes out with the first bytes."""
        self.status = status
        framing = b"transfer-encoding: chunked\r\n" if self._chunked else b""
        self._head = head(status, headers, framing + self._connection())

    def write(self, data: bytes) -> None:
        """Sends some of the body."""
        if data:
            self._put(self._framed(data))

    def end(self, data: bytes = b"") -> None:
        """Sends the last of the body."""
        last = self._framed(data) + (b"0\r\n\r\n" if self._chunked else b"")
        if last:
            self._put(last)
        self._finish()

    def abort(self) -> None:
        """Breaks the connection off, so that nobody takes what was sent for the whole answer."""
        self._transport.abort()

    def draws_from(self, source: Source) -> None:
        """Names the source that is paused while the client is slow."""
        self._source = source
        if self._paused:
            source.pause()

    def then(self, on_end: Callable[[], None]) -> None:
        """Says what to do when the answer is written. For the connection."""
        self._on_end = on_end

    def pause(self) -> None:
        """Tells that the client is slow. For the connection."""
        self._paused = True
        if self._source is not None:
            self._source.pause()

    def resume(self) -> None:
        """Tells that the client has caught up. For the connection."""
        self._paused = False
        if self._source is not None:
            self._source.resume()

    def _put(self, data: bytes) -> None:
        if not self._transport.is_closing():  # uvloop raises between the client's end and the news of it
            self._transport.write(data)

    def _framed(self, data: bytes) -> bytes:
        framed = b"%x\r\n%b\r\n" % (len(data), data) if self._chunked and data else data
        if self._head:
            framed, self._head = self._head + framed, b""
        return framed

    def _connection(self) -> bytes:
        return b"" if self.keep_alive else _CLOSE

    def _finish(self) -> None:
        self.ended = True
        if self._on_end is not None:
            self._on_end()
