"""Connections to engines, kept open between requests."""

import asyncio
import math
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from pathlib import Path

from kvlease.gateway.http.answer import Answer, Stale, Unreachable
from kvlease.gateway.http.message import Headers
from kvlease.gateway.http.origin import Origin, origin
from kvlease.gateway.http.upstream import UpstreamConnection

# vLLM closes a connection that was idle for 5 s; ours go first, so that few requests meet a closing one.
_IDLE = 4.0


class Pool:
    """Sends requests to engines. `sweep` is to be called every second or so; nothing here waits by itself."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        connect_timeout: float = 2.0,
        silence_timeout: float = math.inf,
        ca: Path | None = None,
    ) -> None:
        """Gives up after so many seconds without a connection, or without a byte of an answer that is due.

        Believes engines with HTTPS on the authorities of *ca* (PEM); the system's if not given.
        """
        self._ca = ca
        self._clock = clock
        self._connect_timeout = connect_timeout
        self._silence_timeout = silence_timeout
        self._all: set[UpstreamConnection] = set()
        self._idle: defaultdict[Origin, list[UpstreamConnection]] = defaultdict(list)

    async def post(self, url: str, path: bytes, headers: Headers, body: Iterable[bytes], *, peer: object) -> Answer:
        """Posts to the engine at that base URL; returns once the head of its answer has come.

        *peer* names the engine, for `forsake`. A cancelled call closes its connection.
        Raises Unreachable, or Lost when the connection broke.
        """
        try:
            where = origin(url)
        except ValueError as error:
            raise Unreachable(str(error)) from error
        request = _render(where, path, headers, b"".join(body))
        kept = self._take(where)
        if kept is not None:
            try:
                return await kept.ask(request, peer)
            except Stale:
                pass  # closed while idle: the engine has not seen the request
        return await (await self._connect(where)).ask(request, peer)

    def forsake(self, peer: object) -> None:
        """Fails what waits for the beginning of an answer of an engine that is known to be gone."""
        for connection in [each for each in self._all if each.waiting and each.peer == peer]:
            connection.abort("the engine is gone")

    def sweep(self) -> None:
        """Closes connections that were idle or silent for too long."""
        now = self._clock()
        for connections in self._idle.values():
            while connections and (connections[0].closed or now - connections[0].idle_since > _IDLE):
                connections.pop(0).abort()
        self._all = {each for each in self._all if not each.closed}
        if self._silence_timeout < math.inf:
            for connection in list(self._all):
                if connection.silence(now) > self._silence_timeout:
                    connection.abort(f"the engine was silent for {self._silence_timeout:g} s")

    def close(self) -> None:
        """Closes all connections."""
        for connection in list(self._all):
            connection.abort("the gateway is stopping")
        self._all.clear()
        self._idle.clear()

    def _take(self, where: Origin) -> UpstreamConnection | None:
        connections = self._idle[where]
        while connections:
            connection = connections.pop()
            if not connection.closed and self._clock() - connection.idle_since < _IDLE:
                return connection
            connection.abort()
        return None

    async def _connect(self, where: Origin) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        make = partial(UpstreamConnection, partial(self._release, where))
        tls = self._tls if where.tls else None
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(make, where.host, where.port, ssl=tls)
        except (OSError, ValueError) as error:  # a ValueError: of a host that no name can be
            raise Unreachable(f"cannot connect to {where.authority.decode()}: {error or 'no answer'}") from error
        self._all.add(connection)
        return connection

    def _release(self, where: Origin, connection: UpstreamConnection) -> None:
        connection.idle_since = self._clock()
        self._idle[where].append(connection)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._ca)


def _render(where: Origin, path: bytes, headers: Headers, body: bytes) -> bytes:
    lines = [b"POST %b%b HTTP/1.1\r\nhost: %b\r\n" % (where.prefix, path, where.authority)]
    lines += [b"%b: %b\r\n" % header for header in headers]
    lines += (b"content-length: %d\r\n\r\n" % len(body), body)
    return b"".join(lines)
