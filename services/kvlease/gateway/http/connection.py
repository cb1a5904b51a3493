"""One client's connection: reads requests one after the other, hands each to the handler, watches for the end."""

import asyncio
import enum
import math
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol, TypeAlias, cast

import structlog

from kvlease.gateway.http.limits import Limits
from kvlease.gateway.http.message import Headers, Request
from kvlease.gateway.http.reader import Incoming, Refused, RequestReader
from kvlease.gateway.http.reply import Reply
from kvlease.gateway.http.sockets import keep_alive

Handler: TypeAlias = Callable[[Request, Reply], Awaitable[None]]
"""Answers a request. Cancelled when the client goes away."""
Refuse: TypeAlias = Callable[[Reply, HTTPStatus, str], None]
"""Answers a request that was not read: with its status and a sentence."""

log = structlog.get_logger()


class Host(Protocol):
    """What a connection needs of its server."""

    handler: Handler
    refuse: Refuse
    limits: Limits
    clock: Callable[[], float]
    check: Callable[[Headers], None]
    draining: bool

    def joined(self, connection: "ServerConnection") -> bool:
        """Counts a new connection; False: it is one too many."""

    def left(self, connection: "ServerConnection") -> None:
        """Forgets a connection."""


class State(enum.Enum):
    """What a connection waits for."""

    READING = enum.auto()
    ANSWERING = enum.auto()
    LINGERING = enum.auto()
    """Refused: what still comes is dropped, until the client closes or the time is up."""


class ServerConnection(asyncio.Protocol):
    """A connection of one client.

    Requests are not pipelined: what comes before an answer has ended is dropped, and the connection closes after it.
    A client that closes its sending half is taken to have left, as proxies do: nothing else tells that it has.
    """

    def __init__(self, host: Host) -> None:
        self.deadline = math.inf
        """When it is given up, on the host's clock."""
        self._host = host
        self._transport: asyncio.Transport
        self._reader: RequestReader
        self._state: State
        self._task: asyncio.Task[None] | None = None
        self._reply: Reply | None = None
        self._next_request()

    # asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        keep_alive(transport)
        self._wait(self._host.limits.idle)
        if not self._host.joined(self):
            self._refuse(Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections"))

    def data_received(self, data: bytes) -> None:
        if self._reply is not None:
            self._reply.keep_alive = False
        elif self._state is State.READING:
            self._read(data)

    def eof_received(self) -> None:
        if self._state is State.ANSWERING:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # the client has gone, whatever the reason
        if self._task is None or self._task.done():
            self._host.left(self)
            return
        self._task.add_done_callback(lambda _: self._host.left(self))
        if self._reply is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._wait(self._host.limits.stall)
        if self._reply is not None:
            self._reply.pause()

    def resume_writing(self) -> None:
        if self._reply is not None:
            self.deadline = math.inf
            self._reply.resume()

    # the server's calls

    def expire(self) -> None:
        """Gives the connection up: its time is over."""
        if self._state is State.READING and self._reader.begun:
            self._refuse(Refused(HTTPStatus.REQUEST_TIMEOUT, "the request took too long to come"))
        else:
            self._transport.abort()

    def drain(self) -> None:
        """Closes once nothing is being read or answered."""
        if self._reply is not None:
            self._reply.keep_alive = False
        elif not self._reader.begun:
            self._transport.close()

    def abort(self) -> None:
        """Closes at once."""
        self._transport.abort()

    # inside

    def _read(self, data: bytes) -> None:
        first = not self._reader.begun
        try:
            incoming = self._reader.feed(data)
        except Refused as refused:
            self._refuse(refused)
            return
        if incoming is not None:
            self._answer(incoming)
        elif first or self._reader.in_body:
            self._wait(self._host.limits.read)

    def _answer(self, incoming: Incoming) -> None:
        keep_alive = incoming.keep_alive and not self._reader.surplus and not self._host.draining
        reply = Reply(self._transport, incoming.request, version=incoming.version, keep_alive=keep_alive)
        reply.then(self._answered)
        self._reply = reply
        self._state = State.ANSWERING
        self.deadline = math.inf
        self._task = asyncio.get_running_loop().create_task(self._handle(incoming.request, reply))
        self._reader.let_go()

    async def _handle(self, request: Request, reply: Reply) -> None:
        try:
            await self._host.handler(request, reply)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("request failed", path=request.path)
            if reply.started and not reply.ended:
                reply.abort()
            elif not reply.started:
                self._host.refuse(reply, HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of the gateway; its log has more")

    def _answered(self) -> None:
        reply, self._reply = self._reply, None
        if reply is None or not reply.keep_alive:
            self._wait(self._host.limits.stall)
            self._transport.close()
            return
        self._next_request()
        self._wait(self._host.limits.idle)

    def _refuse(self, refused: Refused) -> None:
        """Answers, and lets the client go on sending for a while: closing at once could take the answer from it."""
        self._state = State.LINGERING
        self._wait(self._host.limits.linger)
        unread = Request(self._reader.method, "", [])
        reply = Reply(self._transport, unread, version="1.1", keep_alive=False)
        self._host.refuse(reply, refused.status, str(refused))
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _expect(self) -> None:
        self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _next_request(self) -> None:
        self._state = State.READING
        self._reader = RequestReader(self._host.limits, on_expect=self._expect, check=self._host.check)

    def _wait(self, seconds: float) -> None:
        self.deadline = self._host.clock() + seconds
