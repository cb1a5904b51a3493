"""A prefill and a decode engine that cost next to nothing: their answers are made beforehand.

`python -m benchmarks.gateway.engine SECONDS_PER_TOKEN [REGISTRY]`. Prefill answers at once, decode streams 100 chunks.
With a registry both have sessions there, so that a router chooses them.
"""

import asyncio
import json
import sys
from functools import partial
from typing import Any, cast

import httptools
import uvloop

from kvlease.client.engine import EngineRegistryClient
from kvlease.rpc import stop_signal
from kvlease.v1 import lease_pb2, registry_pb2

CHUNKS = 100
MODEL = "model"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n"
_SSE = _HEAD % b"text/event-stream; charset=utf-8" + b"transfer-encoding: chunked\r\n\r\n"


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    return _chunked(b"data: %b\n\n" % json.dumps(chunk, separators=(",", ":")).encode())  # as vLLM writes it


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _whole(value: dict[str, Any]) -> bytes:
    body = json.dumps(value).encode()
    return _HEAD % b"application/json" + b"content-length: %d\r\n\r\n%b" % (len(body), body)


OPENING = _SSE + _event({"role": "assistant", "content": ""})
WORDS = [_event({"content": f" word{i:03}"}) for i in range(CHUNKS - 1)] + [_event({"content": " end"}, "stop")]
CLOSING = _chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n"
MODELS = _whole({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "bench"}]})
PREFILLED = _whole(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 256, "completion_tokens": 1, "total_tokens": 257},
        "kv_transfer_params": {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [list(range(16))],
            "remote_engine_id": "engine",
            "remote_host": "127.0.0.1",
            "remote_port": 5600,
        },
    }
)


class Connection(asyncio.Protocol):
    """Answers what comes."""

    def __init__(self, pace: float, *, decodes: bool) -> None:
        self._pace, self._decodes = pace, decodes
        self._parser = httptools.HttpRequestParser(self)
        self._posts = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._parser.get_method() != b"POST":
            self._transport.write(MODELS)
        elif not self._decodes:
            self._transport.write(PREFILLED)
        else:
            self._stream()

    def _stream(self) -> None:
        if not self._pace:
            self._transport.writelines([OPENING, *WORDS, CLOSING])
            return
        asyncio.get_running_loop().call_later(self._pace, self._say, 0)

    def _say(self, index: int) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(WORDS[index] if index else OPENING + WORDS[0])  # together, as vLLM's
        if index + 1 < len(WORDS):
            asyncio.get_running_loop().call_later(self._pace, self._say, index + 1)
        else:
            self._transport.write(CLOSING)


async def serve(pace: float, registry: str) -> None:
    """Serves until a signal comes."""
    loop = asyncio.get_running_loop()
    urls = []
    for decodes in (False, True):
        server = await loop.create_server(partial(Connection, pace, decodes=decodes), "127.0.0.1", 0, backlog=1024)
        urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    beating = [
        asyncio.create_task(_live(registry, url, role))
        for url, role in zip(urls, (registry_pb2.ENGINE_ROLE_PREFILL, registry_pb2.ENGINE_ROLE_DECODE), strict=True)
        if registry
    ]
    print(f"ready engines {urls[0].removeprefix('http://')} {urls[1].removeprefix('http://')}", flush=True)
    await stop_signal()
    for task in beating:
        task.cancel()


async def _live(registry: str, url: str, role: registry_pb2.EngineRole.ValueType) -> None:
    """Keeps a session: heartbeats and nothing else."""
    client = EngineRegistryClient(registry)
    engine = registry_pb2.Engine(
        ref=lease_pb2.EngineRef(engine_id=url, incarnation="1"),
        role=role,
        models=[MODEL],
        http_url=url,
        total_blocks=10_000,
        vllm_version="0",
    )
    opened = await client.open_session(registry_pb2.OpenSessionRequest(engine=engine))
    beat = registry_pb2.HeartbeatRequest(
        credential=opened.credential, load=registry_pb2.EngineLoad(running=1, free_blocks=9_000)
    )
    while True:
        beat.received_number = (await client.heartbeat(beat)).number
        await asyncio.sleep(1.0)


if __name__ == "__main__":
    uvloop.run(serve(float(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
