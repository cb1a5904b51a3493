"""How engines reach one another's blocks: directly within a process, over a line protocol between processes.

It stands for NIXL's side channel and transfers both. A request and its answer are one line of JSON each.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from kvlease.sim.pool import BlockPool

_LINE = 64 * 1024 * 1024  # bytes; a million tokens many times over
_PATIENCE = 10.0  # seconds

Tags = list[bytes | None]


class ReadFailedError(Exception):
    """The blocks cannot be read: their engine is not there."""


class Peer(Protocol):
    """An engine, as others reach it."""

    pool: BlockPool

    def notified(self, request_id: str) -> None:
        """A reader without a lease has what it needs of that request's blocks."""


class _Ask(msgspec.Struct):
    engine: str
    blocks: list[int]
    done: str = ""


class _Told(msgspec.Struct):
    tags: list[str | None] = []
    error: str = ""


class Wire:
    """The engines of this process, and connections to those of others."""

    def __init__(self, host: str = "127.0.0.1", name: str = "") -> None:
        """Listens on *host*, which others know by *name* if one is given, on any free port, from `async with` on."""
        self.host = name or host
        self.port = 0
        self._listen = host
        self._peers: dict[str, Peer] = {}
        self._lines: dict[tuple[str, int], _Line] = {}
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        """Listens."""
        self._server = await asyncio.start_server(self._connected, self._listen, 0, limit=_LINE)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for line in self._lines.values():
            line.close()
        if self._server is not None:
            self._server.close()
        for writer in self._serving:
            writer.close()
        await asyncio.gather(*self._serving.values())

    def attach(self, engine: str, peer: Peer) -> None:
        """Lets others reach *peer* under NIXL's id *engine*."""
        self._peers[engine] = peer

    def detach(self, engine: str) -> None:
        """Lets nobody reach it any more."""
        self._peers.pop(engine, None)

    async def fetch(self, params: Mapping[str, Any], block_ids: Sequence[int], done: str = "") -> Tags:
        """Returns what is in the blocks of the engine that *params* names, and says that *done* is read.

        Raises:
            ReadFailedError: It cannot be reached, or has no such blocks.
        """
        engine, host, port = params["remote_engine_id"], params["remote_host"], params["remote_port"]
        if engine in self._peers or (host, port) == (self.host, self.port):
            return self._look(engine, block_ids, done)
        line = self._lines.setdefault((host, port), _Line(host, port))
        answer = msgspec.json.decode(
            await line.ask(msgspec.json.encode(_Ask(engine, list(block_ids), done))), type=_Told
        )
        if answer.error:
            raise ReadFailedError(answer.error)
        return [None if tag is None else bytes.fromhex(tag) for tag in answer.tags]

    def _look(self, engine: str, block_ids: Sequence[int], done: str) -> Tags:
        """Reads blocks as they are now. What nobody holds counts as overwritten, whatever is still in there."""
        peer = self._peers.get(engine)
        if peer is None:
            raise ReadFailedError(f"no engine {engine} here")
        table = peer.pool.blocks
        if not all(0 < block_id < len(table) for block_id in block_ids):
            raise ReadFailedError("no such blocks")
        tags = [block.tag if (block := table[block_id]).ref_cnt else None for block_id in block_ids]
        if done:
            peer.notified(done)
        return tags

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving[writer] = task
        task.add_done_callback(lambda _: self._serving.pop(writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            while line := await reader.readline():
                ask = msgspec.json.decode(line, type=_Ask)
                try:
                    tags = self._look(ask.engine, ask.blocks, ask.done)
                except ReadFailedError as error:
                    told = _Told(error=str(error))
                else:
                    told = _Told([None if tag is None else tag.hex() for tag in tags])
                writer.write(msgspec.json.encode(told) + b"\n")
                await writer.drain()


class _Line:
    """A connection to another process, made when needed; one question at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._lock = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, question: bytes) -> bytes:
        """Returns the answer. Raises ReadFailedError when none comes."""
        async with self._lock:
            try:
                async with asyncio.timeout(_PATIENCE):
                    return await self._ask(question)
            except (OSError, TimeoutError) as error:
                self.close()
                raise ReadFailedError(f"{self._address[0]}:{self._address[1]} does not answer: {error!r}") from error
            except asyncio.CancelledError:
                self.close()
                raise

    async def _ask(self, question: bytes) -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address, limit=_LINE)
        reader, writer = self._streams
        writer.write(question + b"\n")
        answer = await reader.readline()
        if not answer:
            raise ConnectionResetError("connection closed")
        return answer

    def close(self) -> None:
        """Closes the connection; the next question makes a new one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
