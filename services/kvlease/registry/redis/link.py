"""One connection to a server, shared by all calls: sent in order, answered in order, none left without an answer."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from redis.asyncio.connection import Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError, ResponseError

from kvlease.registry.errors import StoreUnreachable

PARTING = 0.1
"""Seconds."""
Command: TypeAlias = Sequence[str | bytes | int]


def connection(url: str, at: tuple[str, int] | None = None) -> Connection:
    """Makes a connection, not connected yet; to another address than the URL's if `at` is given."""
    options: dict[str, Any] = {**parse_url(url), "protocol": 2, "socket_timeout": None, "retry": Retry(NoBackoff(), 0)}
    kind = options.pop("connection_class", Connection)
    if at:
        options["host"], options["port"] = at
    made: Connection = kind(**options)
    return made


async def disconnect(connected: Connection) -> None:
    """Closes a connection; waits only a moment for a peer that takes nothing more."""
    with suppress(RedisError, OSError, TimeoutError):
        async with asyncio.timeout(PARTING):
            await connected.disconnect()


def lost(error: Exception) -> StoreUnreachable:
    lost = StoreUnreachable("the connection to the store broke")
    lost.__cause__ = error
    return lost


class Link:
    """A connection while it lives. What ends it ends all calls on it."""

    def __init__(self, connected: Connection) -> None:
        self._connection = connected
        self._to_send: list[tuple[Command, asyncio.Future[Any]]] = []
        self._to_answer: deque[asyncio.Future[Any]] = deque()
        self._news = asyncio.Event()
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._tasks = [asyncio.create_task(self._guarded(x)) for x in (self._send, self._receive)]

    async def call(self, *command: str | bytes | int) -> Any:
        """Calls a command. Raises ResponseError, or StoreUnreachable when the connection ends before the answer."""
        if self.ended.done():
            raise self.ended.result()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._to_send.append((command, answer))
        self._news.set()
        return await answer

    def end(self, error: Exception) -> None:
        """Ends it: all calls fail with this."""
        if self.ended.done():
            return
        self.ended.set_result(error)
        for answer in (*self._to_answer, *(answer for _, answer in self._to_send)):
            if not answer.done():
                answer.set_exception(error)
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Ends it and closes the connection."""
        self.end(StoreUnreachable("the connection was closed"))
        await asyncio.wait(self._tasks)
        await disconnect(self._connection)

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (RedisError, OSError) as error:
            self.end(lost(error))

    async def _send(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            batch, self._to_send = self._to_send, []
            packed: list[bytes] = []
            for command, answer in batch:
                packed += self._connection.pack_command(*command)
                self._to_answer.append(answer)
            if not self._connection.is_connected:
                raise ConnectionLost("the connection is gone")  # it would connect again by itself, and not be greeted
            await self._connection.send_packed_command(b"".join(packed), check_health=False)

    async def _receive(self) -> None:
        while True:
            try:
                answer, error = await self._connection.read_response(disable_decoding=True), None
            except ResponseError as refused:
                answer, error = None, refused
            waiting = self._to_answer.popleft()
            if waiting.done():
                continue
            if error:
                waiting.set_exception(error)
            else:
                waiting.set_result(answer)
