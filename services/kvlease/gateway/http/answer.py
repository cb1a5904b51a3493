"""An answer of an engine, and how it can fail to come."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from kvlease.gateway.http.message import Headers

Sink: TypeAlias = Callable[[bytes], None]
"""Takes some of an answer's body."""


class Line(Protocol):
    """What an answer comes over."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def abort(self) -> None: ...


class UpstreamError(Exception):
    """The engine could not be reached, or its answer broke off."""


class Unreachable(UpstreamError):
    """No connection could be made."""


class Lost(UpstreamError):
    """The connection broke before the answer was whole."""


class Stale(Lost):
    """A kept connection broke before a byte of the answer came: as a rule it was closed while idle."""


class Answer:
    """An answer whose head has come. Its body goes to the sink, once there is one; until then it is kept."""

    def __init__(self, status: int, headers: Headers, line: Line) -> None:
        self.status = status
        self.headers = headers
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the body is whole; fails with `Lost`."""
        self._line = line
        self._over = False
        self._kept: list[bytes] = []
        self._sink: Sink = self._kept.append

    def attach(self, sink: Sink) -> None:
        """Names who takes the body, what has come of it first."""
        if not self._over:
            self._sink = sink
        for data in self._kept:
            sink(data)
        self._kept.clear()

    async def read(self) -> bytes:
        """Returns the whole body. Raises Lost."""
        await self.done
        return b"".join(self._kept)

    def abort(self) -> None:
        """Closes the connection unless the answer is whole: the engine drops the request."""
        if not self._over:
            self._line.abort()

    def pause(self) -> None:
        """Takes no more from the engine for now."""
        if not self._over:
            self._line.pause()

    def resume(self) -> None:
        """Goes on taking from the engine."""
        if not self._over:
            self._line.resume()

    def take(self, data: bytes) -> None:
        """Takes some of the body. For the connection."""
        self._sink(data)

    def finish(self, error: Lost | None) -> None:
        """Ends the body. For the connection."""
        self._over = True
        self._sink = self._kept.append  # lets go of who took it: they hold one another, and the request's body
        if self.done.done():
            return  # who waited was cancelled
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
            self.done.exception()  # marks it as seen: nobody may be waiting
