"""A gRPC client that does nothing but load a server: HTTP/2 by hand, so that on the other core it is not what limits.

Each worker has one call at a time. An answer counts once its message and its trailers have come: an error of gRPC's
has no message, and fails the run.
"""

import asyncio
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1
MAX_FRAME = 16_384
FIRST_WINDOW = 65_535
WIDE = 1 << 30
REFILL = 1 << 24

Call = tuple[bytes, bytes]
"""The full name of a method, such as b"/kvlease.v1.RegistryService/Heartbeat", and its request."""


class CallFailed(Exception):
    """The server did not answer as it should."""


@dataclass(slots=True)
class Worker:
    """Makes one call after the other."""

    calls: Iterator[Call]
    streams: bool
    """Whether all its requests go over one stream, as one call with many messages."""
    begun: float = 0.0
    answered: bool = False


@dataclass(slots=True)
class Load:
    """What a run showed."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Seconds, one of each call."""

    @property
    def rate(self) -> float:
        """Calls per second."""
        return len(self.latencies) / self.seconds


class Wire(asyncio.Protocol):
    """One connection that many workers share."""

    def __init__(self, authority: str) -> None:
        self._authority = authority.encode()
        self._buffer = bytearray()
        self._window = FIRST_WINDOW
        self._waiting: list[bytes] = []
        self._unread = 0
        self._next = 1
        self._workers: dict[int, Worker] = {}
        self._paths: dict[bytes, bytes] = {}
        self._stop_at = 0.0
        self._load = Load()
        self._over: asyncio.Future[None]
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        settings = struct.pack(">HIHI", 0x1, 0, 0x4, WIDE)  # no table of headers, a wide window
        self._transport.write(PREFACE + _frame(SETTINGS, 0, 0, settings))
        self._transport.write(_frame(WINDOW, 0, 0, struct.pack(">I", WIDE)))

    async def run(self, workers: Sequence[Iterator[Call]], seconds: float, *, streams: bool) -> Load:
        """Loads the server for so long. Raises CallFailed."""
        self._load = Load()
        self._over = asyncio.get_running_loop().create_future()
        begun = time.perf_counter()
        self._stop_at = begun + seconds
        for calls in workers:
            self._begin(Worker(calls, streams))
        await self._over
        self._load.seconds = time.perf_counter() - begun
        return self._load

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was lost: {exc}")

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at, end = 0, len(buffer)
        while end - at >= 9:
            length = int.from_bytes(buffer[at : at + 3], "big")
            if end - at < 9 + length:
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + 9], "big")
            self._take(kind, flags, stream, at + 9, length)
            at += 9 + length
        del buffer[:at]

    def _take(self, kind: int, flags: int, stream: int, at: int, length: int) -> None:
        if kind == DATA:
            self._unread += length
            if length and (worker := self._workers.get(stream)):
                worker.answered = True
                if worker.streams:
                    self._go_on(stream, worker)
            if self._unread > REFILL:
                self._transport.write(_frame(WINDOW, 0, 0, struct.pack(">I", self._unread)))
                self._unread = 0
        elif kind == HEADERS and flags & END_STREAM:
            self._end(stream)
        elif kind == WINDOW and stream == 0:
            self._window += int.from_bytes(self._buffer[at : at + 4], "big")
            self._send_waiting()
        elif kind == SETTINGS and not flags & ACK:
            self._transport.write(_frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._transport.write(_frame(PING, ACK, 0, bytes(self._buffer[at : at + length])))
        elif kind in (RESET, GOAWAY):
            self._fail(f"frame {kind}: {bytes(self._buffer[at : at + length])!r}")

    def _begin(self, worker: Worker) -> None:
        path, message = next(worker.calls)
        worker.begun, worker.answered = time.perf_counter(), False
        stream, self._next = self._next, self._next + 2
        self._workers[stream] = worker
        block = self._paths.get(path) or self._paths.setdefault(path, _headers(path, self._authority))
        body = b"\0" + struct.pack(">I", len(message)) + message
        frames = [_frame(HEADERS, END_HEADERS, stream, block)]
        for start in range(0, len(body), MAX_FRAME):
            last = start + MAX_FRAME >= len(body) and not worker.streams
            frames.append(_frame(DATA, END_STREAM if last else 0, stream, body[start : start + MAX_FRAME]))
        self._send(b"".join(frames), len(body))

    def _go_on(self, stream: int, worker: Worker) -> None:
        """Sends the next message of a stream, each answered by one frame."""
        now = time.perf_counter()
        self._load.latencies.append(now - worker.begun)
        if now >= self._stop_at:
            del self._workers[stream]
            self._transport.write(_frame(DATA, END_STREAM, stream, b""))
            self._finish()
            return
        worker.begun, (_, message) = now, next(worker.calls)
        body = b"\0" + struct.pack(">I", len(message)) + message
        self._send(_frame(DATA, 0, stream, body), len(body))

    def _end(self, stream: int) -> None:
        worker = self._workers.pop(stream, None)
        now = time.perf_counter()
        if worker is None:
            return  # a stream whose end we began
        if not worker.answered:
            self._fail("a call ended with an error")
        self._load.latencies.append(now - worker.begun)
        if now < self._stop_at:
            self._begin(worker)
        else:
            self._finish()

    def _finish(self) -> None:
        if not self._workers and not self._over.done():
            self._over.set_result(None)

    def _send(self, frames: bytes, size: int) -> None:
        if self._waiting or size > self._window:
            self._waiting.append(frames)
            return
        self._window -= size
        self._transport.write(frames)

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for frames in waiting:
            self._send(frames, len(frames))

    def _fail(self, reason: str) -> None:
        if hasattr(self, "_over") and not self._over.done():
            self._over.set_exception(CallFailed(reason))


async def load(address: str, workers: Sequence[Iterator[Call]], seconds: float, *, streams: bool = False) -> Load:
    """Loads a server over a new connection. Raises CallFailed, OSError."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    transport, wire = await loop.create_connection(lambda: Wire(address), host, int(port))
    try:
        return await wire.run(workers, seconds, streams=streams)
    finally:
        transport.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _headers(path: bytes, authority: bytes) -> bytes:
    """HPACK without a table: every name and value as it is, but for two of the static table's entries."""
    literals = ((0x04, path), (0x01, authority))  # indices of :path and :authority
    named = ((b"te", b"trailers"), (b"content-type", b"application/grpc"), (b"user-agent", b"bench"))
    block = b"\x83\x86" + b"".join(bytes((index,)) + _text(value) for index, value in literals)
    return block + b"".join(b"\0" + _text(name) + _text(value) for name, value in named)


def _text(value: bytes) -> bytes:
    assert len(value) < 127, "longer ones have another form"  # noqa: S101 - ours are all short
    return bytes((len(value),)) + value
