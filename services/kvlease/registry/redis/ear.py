"""What scripts publish, heard on a connection of its own."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from redis.asyncio.connection import Connection
from redis.exceptions import RedisError

from kvlease.registry.redis.link import disconnect, lost


class Ear:
    """A subscription while it lives."""

    def __init__(self, connected: Connection, channels: Sequence[str], heard: Callable[[str, bytes], None]) -> None:
        """Will call `heard` with channel and message."""
        self._connection = connected
        self._channels = channels
        self._heard = heard
        self._pongs: asyncio.Queue[None] = asyncio.Queue()
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._listening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Returns when everything published from now on will be heard."""
        await self._connection.send_command("SUBSCRIBE", *self._channels, check_health=False)
        for _ in self._channels:
            await self._connection.read_response(disable_decoding=True)
        self._listening = asyncio.create_task(self._listen())

    async def catch_up(self) -> None:
        """Returns when everything published so far was heard."""
        await self._connection.send_command("PING", check_health=False)
        await self._pongs.get()

    async def close(self) -> None:
        """Hears no more."""
        if self._listening:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        await disconnect(self._connection)

    async def _listen(self) -> None:
        try:
            while True:
                self._take(await self._connection.read_response(disable_decoding=True))
        except (RedisError, OSError) as error:
            self.ended.set_result(lost(error))

    def _take(self, message: list[Any]) -> None:
        if message[0] == b"message":
            self._heard(message[1].decode(), message[2])
        elif message[0] == b"pong":
            self._pongs.put_nowait(None)
