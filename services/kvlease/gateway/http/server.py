"""The server: listens, keeps its connections, and stops without cutting anybody off."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable

from kvlease.gateway.http.connection import Handler, Refuse, ServerConnection
from kvlease.gateway.http.limits import Limits
from kvlease.gateway.http.message import Headers
from kvlease.gateway.http.reader import anybody

_BACKLOG = 4096
_HANDSHAKE = 10.0  # seconds
_GOODBYE = 2.0  # seconds for a client to close its half of an encrypted connection


class Server:
    """Serves one handler. `sweep` is to be called every second or so; nothing here waits by itself."""

    def __init__(
        self,
        handler: Handler,
        *,
        refuse: Refuse,
        limits: Limits,
        clock: Callable[[], float],
        check: Callable[[Headers], None] = anybody,
    ) -> None:
        """Asks *check* by a request's headers before it takes a long body; it may raise Refused."""
        self.handler = handler
        self.check = check
        self.refuse = refuse
        self.limits = limits
        self.clock = clock
        self.draining = False
        self._connections: set[ServerConnection] = set()
        self._listener: asyncio.Server | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Starts to listen, encrypted if *tls* is given; returns the port. Raises OSError when the address is taken."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: ServerConnection(self),
            host,
            port,
            backlog=_BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=_HANDSHAKE if tls else None,
            ssl_shutdown_timeout=_GOODBYE if tls else None,
        )
        bound: int = self._listener.sockets[0].getsockname()[1]
        return bound

    def joined(self, connection: ServerConnection) -> bool:
        """Counts a new connection; False: it is one too many."""
        self._connections.add(connection)
        self._empty.clear()
        return len(self._connections) <= self.limits.connections

    def left(self, connection: ServerConnection) -> None:
        """Forgets a connection that is closed and whose request is over."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def sweep(self) -> None:
        """Gives up the connections whose time is over."""
        now = self.clock()
        for connection in [each for each in self._connections if each.deadline <= now]:
            connection.expire()

    async def drain(self, grace: float) -> None:
        """Listens no more, lets what is being answered end within *grace* seconds, then closes all connections.

        Returns when every handler has ended.
        """
        self.draining = True
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), grace)
        for connection in list(self._connections):
            connection.abort()
        await self._empty.wait()
