"""A small OpenAI-like engine over real HTTP: it answers like vLLM, and fails in every way that it is told to.

It writes bytes by hand, so that a test decides where an answer is cut, and sees when its client leaves.
"""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

MODEL = "tiny"


@dataclass(slots=True)
class Received:
    """A request as it came, and whether its client left before the answer was whole."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    connection: int
    left: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ticket(self) -> str | None:
        params = self.body.get("kv_transfer_params") or {}
        return params.get("kvlease_ticket")


class Drop(Exception):
    """Closes the connection, with no answer or in the midst of one."""


Script: TypeAlias = Callable[[Received, "Wire"], Any]
"""A coroutine function that answers one request."""


class Wire:
    """What a script writes with."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def json(self, status: int, value: object, **headers: str) -> None:
        """Answers whole."""
        await self.raw_json(status, json.dumps(value, separators=(",", ":")).encode(), **headers)

    async def raw_json(self, status: int, body: bytes, **headers: str) -> None:
        """Answers whole, with these bytes."""
        extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self._writer.write(
            f"HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\n{extra}"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await self._writer.drain()

    async def begin_stream(self) -> None:
        self._writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        await self._writer.drain()

    async def piece(self, data: bytes) -> None:
        """Sends one chunk."""
        self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._writer.drain()

    async def end_stream(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def stream(self, pieces: Iterable[bytes]) -> None:
        """Answers with a stream of these chunks."""
        await self.begin_stream()
        for data in pieces:
            await self.piece(data)
        await self.end_stream()


class FakeEngine:
    """One engine. Requests are answered by the next script told, else as vLLM answers them."""

    def __init__(self, words: Iterable[str] = ("Hello", " from", " afar")) -> None:
        self.words = list(words)
        self.received: list[Received] = []
        self.came = asyncio.Event()
        self.gate = asyncio.Event()
        """While clear, nothing is answered."""
        self.gate.set()
        self.connections = 0
        self.nobody = asyncio.Event()
        """Set while no connection is open."""
        self._scripts: deque[Script] = deque()
        self._server: asyncio.Server | None = None
        self._scheme = "http"
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"{self._scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def next(self, *scripts: Script) -> None:
        """Says how to answer the next requests."""
        self._scripts.extend(scripts)

    def forget(self) -> None:
        """Answers as vLLM does again, whatever was said."""
        self._scripts.clear()

    async def request(self, number: int = 1) -> Received:
        """Waits for the n-th request."""
        while len(self.received) < number:
            self.came.clear()
            await self.came.wait()
        return self.received[number - 1]

    async def stop(self) -> None:
        """Dies: closes every connection and listens no more."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        self.hang_up()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hang_up(self) -> None:
        """Closes every connection, as vLLM does with idle ones."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._scheme = "https" if tls else "http"
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=tls)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.nobody.clear()
        try:
            while await self._serve_one(reader, writer, number):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()
            if not self._writers:
                self.nobody.set()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        received = await _read(reader, number)
        self.received.append(received)
        self.came.set()
        answering = asyncio.create_task(self._answer(received, Wire(writer)))
        leaving = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                received.left.set()
                return False
            answering.result()
            received.answered.set()
        except Drop:
            return False
        except ConnectionError:
            received.left.set()
            return False
        finally:
            answering.cancel()
            leaving.cancel()
            with suppress(asyncio.CancelledError, ConnectionError, Drop):
                await asyncio.gather(answering, leaving)
        return True

    async def _answer(self, received: Received, wire: Wire) -> None:
        await self.gate.wait()
        if self._scripts:
            await self._scripts.popleft()(received, wire)
        elif received.body.get("stream"):
            await wire.stream(events(received.body, self.words, chat=received.path.endswith("/chat/completions")))
        else:
            await wire.json(
                200, completion(received.body, self.words, chat=received.path.endswith("/chat/completions"))
            )


@asynccontextmanager
async def engines(*names: str) -> AsyncIterator[dict[str, FakeEngine]]:
    """Runs an engine of each name."""
    made = {name: FakeEngine() for name in names}
    try:
        for engine in made.values():
            await engine.start()
        yield made
    finally:
        for engine in made.values():
            await engine.stop()


def usage(completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": 100,
        "total_tokens": 100 + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def completion(body: dict[str, Any], words: list[str], *, chat: bool) -> dict[str, Any]:
    """Returns a whole answer in vLLM's form."""
    count = min(len(words), body.get("max_tokens") or len(words))
    text = "".join(words[:count])
    reason = "length" if count < len(words) else "stop"
    said: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    choices = [{"index": n, **said, "logprobs": None, "finish_reason": reason} for n in range(body.get("n") or 1)]
    kind = "chat.completion" if chat else "text_completion"
    return {"id": "x", "object": kind, "created": 1, "model": MODEL, "choices": choices, "usage": usage(count)}


def events(body: dict[str, Any], words: list[str], *, chat: bool) -> list[bytes]:
    """Returns the events of a streamed answer in vLLM's form."""
    choices = body.get("n") or 1
    made = [event(chat, n, {"role": "assistant", "content": ""}) for n in range(choices)] if chat else []
    for place, word in enumerate(words):
        last = "stop" if place == len(words) - 1 else None
        made += [event(chat, n, {"content": word} if chat else {"text": word}, last) for n in range(choices)]
    if (body.get("stream_options") or {}).get("include_usage"):
        made.append(chunk({"choices": [], "usage": usage(len(words))}, chat=chat))
    return [*made, b"data: [DONE]\n\n"]


def event(chat: bool, index: int, said: dict[str, Any], reason: str | None = None) -> bytes:
    """Returns the event of one choice."""
    part = {"delta": said} if chat else said
    return chunk({"choices": [{"index": index, **part, "logprobs": None, "finish_reason": reason}]}, chat=chat)


def chunk(rest: dict[str, Any], *, chat: bool = True) -> bytes:
    kind = "chat.completion.chunk" if chat else "text_completion"
    value = {"id": "x", "object": kind, "created": 1, "model": MODEL, **rest}
    return b"data: %b\n\n" % json.dumps(value, separators=(",", ":")).encode()


async def _read(reader: asyncio.StreamReader, connection: int) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(first.split(" ")[1], headers, json.loads(body), connection)


def told(status: int, message: str = "no") -> Script:
    """Answers with an error, as vLLM words it."""

    async def answer(_: Received, wire: Wire) -> None:
        await wire.json(status, {"error": {"message": message, "type": "X", "param": None, "code": status}})

    return answer


async def drop(_: Received, __: Wire) -> None:
    """Closes the connection without an answer."""
    raise Drop


def pieces(*data: bytes, then: type[Exception] | None = None) -> Script:
    """Answers with a stream of these chunks, and then perhaps drops the connection."""

    async def answer(_: Received, wire: Wire) -> None:
        await wire.begin_stream()
        for each in data:
            await wire.piece(each)
        if then is not None:
            raise then
        await wire.end_stream()

    return answer
