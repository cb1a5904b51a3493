"""A small engine over real HTTP: stock prefill and decode as far as a driver sees them, with counters."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web


@dataclass(slots=True)
class FakeEngine:
    """Answers 7, 7, 7, ...; gives a handle that counts its requests, and notes who left in mid-stream."""

    name: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def complete(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.asked.append(asked)
        if asked.get("stream"):
            return await self._stream(request, asked)
        choice = said(asked["max_tokens"]) if asked["logprobs"] else {"text": ""}
        return web.json_response({"choices": [choice], "kv_transfer_params": self._handle()})

    async def metrics(self, _request: web.Request) -> web.Response:
        done = len(self.asked)
        lines = (
            f'vllm:e2e_request_latency_seconds_count{{engine="0"}} {done}',
            f'vllm:e2e_request_latency_seconds_sum{{engine="0"}} {done * 0.5}',
            f'vllm:nixl_xfer_time_seconds_count{{engine="0"}} {done}',
        )
        return web.Response(text="\n".join(lines) + "\n")

    async def _stream(self, request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            for _ in range(asked["max_tokens"]):
                await response.write(b"data: " + json.dumps({"choices": [said(1)]}).encode() + b"\n\n")
                await asyncio.sleep(0)
        except ConnectionResetError:
            self.left.set()
            raise
        usage = {"prompt_tokens_details": {"cached_tokens": 5}}
        await response.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        return response

    def _handle(self) -> dict[str, Any]:
        return {"remote_engine_id": self.name, "remote_request_id": len(self.asked), "remote_num_tokens": 99}


def said(count: int) -> dict[str, Any]:
    told = {"tokens": ["token_id:7"] * count, "token_logprobs": [-0.5] * count}
    return {"text": "x" * count, "logprobs": told | {"top_logprobs": [{"token_id:7": -0.5}] * count}}


@asynccontextmanager
async def serving(*names: str) -> AsyncIterator[tuple[aiohttp.ClientSession, list[FakeEngine]]]:
    """Engines on free ports, and a session to ask them."""
    engines = [FakeEngine(name) for name in names]
    runners = []
    for engine in engines:
        app = web.Application()
        app.router.add_post("/v1/completions", engine.complete)
        app.router.add_get("/metrics", engine.metrics)
        runners.append(web.AppRunner(app))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], "127.0.0.1", 0).start()
        engine.url = f"http://127.0.0.1:{runners[-1].addresses[0][1]}"
    try:
        async with aiohttp.ClientSession() as http:
            yield http, engines
    finally:
        for runner in runners:
            await runner.cleanup()
