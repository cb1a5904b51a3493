"""Streams pass as they come, at the pace of the client."""

import asyncio
from typing import Any

import pytest

from tests.conftest import Seen
from tests.gateway.stack import MESSAGES, Stack
from tests.support.openai_engine import MODEL, event
from tests.support.raw_http import RawClient, raw_client

BODY = b'{"model":"%b","messages":[],"stream":true}' % MODEL.encode()
ASK = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
END = event(True, 0, {"content": ""}, "stop") + b"data: [DONE]\n\n"


class Steps:
    """A script that sends a piece whenever it is told to."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def send(self, *data: bytes | None) -> None:
        for each in data:
            self._queue.put_nowait(each)

    async def __call__(self, _: Any, wire: Any) -> None:
        await wire.begin_stream()
        while (data := await self._queue.get()) is not None:
            await wire.piece(data)
        await wire.end_stream()


async def chunk_of(client: RawClient) -> bytes:
    size = int((await client.reader.readline()), 16)
    return (await client.reader.readexactly(size + 2))[:-2]


@pytest.mark.case(38)
async def test_every_event_comes_before_the_next_is_made(stack: Stack, seen: Seen) -> None:
    steps = Steps()
    stack.decode.next(steps)
    async with raw_client(_port(stack)) as client:
        await client.send(ASK)
        for word in ("a", "b", "c"):
            said = event(True, 0, {"content": word})
            steps.send(said)
            if word == "a":
                assert (await client.head())[0] == 200
            assert await chunk_of(client) == said
        steps.send(END, None)
        assert await chunk_of(client) == END
    seen("each of 3 events came before the next was made, byte for byte")


async def test_an_opening_that_says_nothing_is_held_for_a_moment_only(stack: Stack) -> None:
    steps, role = Steps(), event(True, 0, {"role": "assistant", "content": ""})
    stack.decode.next(steps)
    async with raw_client(_port(stack)) as client:
        await client.send(ASK)
        steps.send(role)

        await client.head()
        assert await chunk_of(client) == role
        steps.send(END, None)


async def test_a_client_that_does_not_read_holds_the_engine_back(stack: Stack) -> None:
    sent = 0
    said = event(True, 0, {"content": "x" * 60_000})

    async def endless(_: Any, wire: Any) -> None:
        nonlocal sent
        await wire.begin_stream()
        while True:
            await wire.piece(said)
            sent += 1

    stack.decode.next(endless)
    async with raw_client(_port(stack)) as client:
        await client.send(ASK)
        before = -1
        while before != sent or not sent:
            before = sent
            await asyncio.sleep(0.2)
        held = sent

        await client.head()
        got = b""
        while len(got) < held * len(said):
            got += await chunk_of(client)
        assert got == said * (len(got) // len(said))

    assert held < 1000
    async with asyncio.timeout(5):
        await (await stack.decode.request()).left.wait()


async def test_tool_calls_and_log_probabilities_pass_intact(stack: Stack) -> None:
    """Case 38."""
    call = {"index": 0, "id": "1", "function": {"name": "f", "arguments": '{"finish_reason":"stop"}'}}
    made = event(True, 0, {"tool_calls": [call]})
    made += event(True, 0, {"content": "x"}).replace(
        b'"logprobs":null', b'"logprobs":{"content":[{"token":"\xc3\xa9"}]}'
    )
    made += event(True, 0, {"content": ""}, "tool_calls") + b"data: [DONE]\n\n"

    async def answer(_: Any, wire: Any) -> None:
        await wire.stream([made[place : place + 7] for place in range(0, len(made), 7)])

    stack.decode.next(answer)

    body = {"model": MODEL, "messages": MESSAGES, "stream": True}
    assert (await stack.http.post("/v1/chat/completions", json=body)).content == made


def _port(stack: Stack) -> int:
    return int(stack.gateway.url.rpartition(":")[2])
