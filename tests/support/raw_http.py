"""A client that sends and sees bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Reads the head of an answer."""
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return int(first.split(" ")[1]), headers

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Reads an answer whose length is told."""
        status, headers = await self.head()
        return status, headers, await self.reader.readexactly(int(headers["content-length"]))

    async def rest(self) -> bytes:
        """Reads until the server closes."""
        return await self.reader.read()


@asynccontextmanager
async def raw_client(port: int) -> AsyncIterator[RawClient]:
    """Connects; everything must be done within ten seconds."""
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield RawClient(reader, writer)
        finally:
            writer.transport.abort()
