"""A small HTTP/1.1 server on asyncio protocols: no task per request, so that an engine's answer costs little."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias, cast

import httptools

JSON = b"application/json"
_BACKLOG = 1024
SSE = b"text/event-stream; charset=utf-8"


@dataclass(slots=True)
class HttpRequest:
    """One request, read whole. *peer* is the address that it came from."""

    method: str = ""
    path: str = ""
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    peer: str = ""


Handler: TypeAlias = "Callable[[HttpRequest, Reply], None]"
"""Answers a request, now or later. Must not raise."""


class Reply:
    """The answer to one request."""

    def __init__(self, connection: "HttpConnection", transport: asyncio.Transport, *, keep_alive: bool) -> None:
        self.gone: Callable[[], None] = lambda: None
        """Called when the client leaves before the answer has ended."""
        self._connection, self._transport, self._keep_alive = connection, transport, keep_alive
        self._lost = False

    def send(self, status: int, body: bytes, content_type: bytes = JSON, extra: bytes = b"") -> None:
        """Answers whole. *extra*: header lines, each with its CRLF."""
        framing = b"content-length: %d\r\n" % len(body)
        self.write(self._head(status, content_type, framing + extra) + body)
        self._ended()

    def begin(self, content_type: bytes, first: bytes, extra: bytes = b"") -> None:
        """Begins an answer that comes in pieces, with the first of them unless that is empty."""
        head = self._head(HTTPStatus.OK, content_type, b"transfer-encoding: chunked\r\n" + extra)
        self.write(head + framed(first) if first else head)

    def write(self, framed_piece: bytes) -> None:
        """Sends a piece that is framed already; nothing once the client has gone."""
        if not self._lost:
            self._transport.write(framed_piece)

    def end(self, last: bytes) -> None:
        """Sends the last piece."""
        self.write(framed(last) + b"0\r\n\r\n")
        self._ended()

    def abort(self) -> None:
        """Cuts the connection."""
        self._transport.abort()

    def lost(self) -> None:
        """The client has gone."""
        self._lost = True
        self.gone()

    def _head(self, status: int, content_type: bytes, more: bytes) -> bytes:
        connection = b"" if self._keep_alive else b"connection: close\r\n"
        return b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\n%b%b\r\n" % (
            status,
            HTTPStatus(status).phrase.encode(),
            content_type,
            connection,
            more,
        )

    def _ended(self) -> None:
        if self._lost:
            return
        if not self._keep_alive:
            self._transport.close()
        self._connection.answered()


def framed(piece: bytes) -> bytes:
    """Returns a piece as HTTP's chunked coding sends it."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


class HttpConnection(asyncio.Protocol):
    """One client. A request that comes before the last one is answered waits for it."""

    def __init__(self, handler: Handler, server: "HttpServer") -> None:
        self._handler, self._server = handler, server
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._request = HttpRequest()
        self._body: list[bytes] = []
        self._reply: Reply | None = None
        self._next: list[HttpRequest] = []
        self._peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._peer = (transport.get_extra_info("peername") or ("gone already",))[0]
        self._server.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # gone is gone
        self._server.left(self)
        if self._reply is not None:
            self._reply.lost()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._transport.abort()

    def answered(self) -> None:
        """The answer has ended: the next request may be taken."""
        self._reply = None
        if self._next:
            self._take(self._next.pop(0))

    def abort(self) -> None:
        """Cuts the connection."""
        self._transport.abort()

    # httptools' calls

    def on_message_begin(self) -> None:
        self._request, self._body = HttpRequest(peer=self._peer), []

    def on_url(self, url: bytes) -> None:
        self._request.path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._request.method = self._parser.get_method().decode()
        if self._request.headers.get(b"expect", b"").lower() == b"100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, piece: bytes) -> None:
        self._body.append(piece)

    def on_message_complete(self) -> None:
        self._request.body = b"".join(self._body)
        if self._reply is None:
            self._take(self._request)
        else:
            self._next.append(self._request)

    def _take(self, request: HttpRequest) -> None:
        self._reply = Reply(self, self._transport, keep_alive=self._parser.should_keep_alive())
        self._handler(request, self._reply)


class HttpServer:
    """Listens on one address.

    It accepts by itself: asyncio's server, closed while a connection is on its way, loses that connection's socket.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._connections: set[HttpConnection] = set()
        self._connecting: set[asyncio.Task[object]] = set()
        self._listener: socket.socket | None = None

    def listen(self, host: str, port: int) -> int:
        """Listens; returns the port. Raises OSError when it is taken."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        listener.setblocking(False)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)
        return int(listener.getsockname()[1])

    def close(self) -> None:
        """Stops listening and cuts all connections."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.abort()

    def joined(self, connection: HttpConnection) -> None:
        """Counts a new connection, unless it was accepted a moment too late."""
        self._connections.add(connection)
        if self._listener is None:
            connection.abort()

    def left(self, connection: HttpConnection) -> None:
        """Forgets a connection."""
        self._connections.discard(connection)

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        loop = asyncio.get_running_loop()
        making = loop.connect_accepted_socket(lambda: HttpConnection(self._handler, self), client)
        task: asyncio.Task[object] = loop.create_task(making)
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
