"""A client that asks for streams, one after the other on each connection, and looks at little more than their end."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from benchmarks.gateway.engine import CHUNKS

_END = b"0\r\n\r\n"


@dataclass(slots=True)
class Answers:
    """What came back. Seconds."""

    first_bytes: list[float] = field(default_factory=list)
    failed: int = 0
    seconds: float = 0.0

    @property
    def whole(self) -> int:
        return len(self.first_bytes)


class Asker(asyncio.Protocol):
    """One connection. Asks again and again until it is time to stop."""

    def __init__(self, request: bytes, answers: Answers, stop_at: float) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request, self._answers, self._stop_at = request, answers, stop_at
        self._transport: asyncio.Transport
        self._begun = self._first = 0.0
        self._chunks, self._tail = 0, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        if self._first == 0.0 and (b"data:" in data or b"data:" in self._tail + data):
            self._first = time.perf_counter()
        both = self._tail + data
        self._chunks += both.count(b'"content":') - self._tail.count(b'"content":')
        self._tail = both[-32:]
        if both.endswith(_END):
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.done.done():
            self._answers.failed += 1
            self.done.set_result(None)

    def _end(self) -> None:
        if self._chunks < CHUNKS or not self._first:
            self._answers.failed += 1
        else:
            self._answers.first_bytes.append(self._first - self._begun)
        if time.perf_counter() < self._stop_at:
            self._ask()
        else:
            self.done.set_result(None)
            self._transport.close()

    def _ask(self) -> None:
        self._begun, self._first = time.perf_counter(), 0.0
        self._chunks, self._tail = 0, b""
        self._transport.write(self._request)


async def ask(address: str, requests: Sequence[bytes], seconds: float) -> Answers:
    """Asks for so long, each request over and over on a connection of its own; answers in flight come to their end."""
    host, _, port = address.rpartition(":")
    answers, loop = Answers(), asyncio.get_running_loop()
    begun = time.perf_counter()
    askers = []
    for request in requests:
        made = partial(Asker, request, answers, begun + seconds)
        _, asker = await loop.create_connection(made, host, int(port))
        askers.append(asker)
    await asyncio.wait([asker.done for asker in askers], timeout=seconds + 30)
    answers.failed += sum(not asker.done.done() for asker in askers)
    answers.seconds = time.perf_counter() - begun
    return answers


def request(conversation: str, size: int, host: str) -> bytes:
    """A chat request of about so many bytes."""
    body = b'{"model":"model","stream":true,"conversation_id":"%b","messages":[{"role":"user","content":"%b"}]}'
    filled = body % (conversation.encode(), b"word " * ((size - len(body)) // 5))
    lines = (
        b"POST /v1/chat/completions HTTP/1.1",
        b"host: " + host.encode(),
        b"content-type: application/json",
        b"content-length: %d" % len(filled),
    )
    return b"\r\n".join((*lines, b"", filled))
