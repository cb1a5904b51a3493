"""One turn over HTTP: streamed, read event by event, and compared with what the prompt should have given."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

import aiohttp

from kvlease.sim import answer, tokens
from kvlease.sim.conversations.history import TOOLS, Message
from kvlease.sim.conversations.plan import TurnPlan
from kvlease.sim.conversations.record import Outcome, Record

_LONGEST = 300  # characters that are kept of why a turn failed


class Gateway:
    """Where turns are sent."""

    def __init__(
        self, http: aiohttp.ClientSession, url: str, *, model: str, patience: float, clock: Callable[[], float]
    ) -> None:
        """Gives a turn *patience* seconds; *clock* tells the seconds since the run began."""
        self._http, self._url, self._model, self._patience, self._clock = http, url, model, patience, clock

    async def ask(self, record: Record, messages: list[Message], turn: TurnPlan) -> str:
        """Sends a turn, notes how it went, and returns the text of its answer as far as it came."""
        heard: list[str] = []
        limit = self._patience if turn.abort_after is None else turn.abort_after
        try:
            async with asyncio.timeout(limit):
                await self._listen(record, messages, turn, heard)
        except TimeoutError:
            record.outcome = Outcome.HUNG if turn.abort_after is None else Outcome.LEFT
        except (aiohttp.ClientError, ConnectionError) as error:
            record.outcome, record.why = Outcome.CUT, f"{type(error).__name__}: {error}"
        record.ended = self._clock()
        text = "".join(heard)
        if text != answer.text(tokens.of_chat(messages), len(heard)):
            record.outcome = Outcome.WRONG
        return text

    async def end(self, conversation: str) -> None:
        """Ends a conversation, if it can."""
        try:
            async with self._http.delete(f"{self._url}/v1/conversations/{conversation}") as response:
                await response.read()
        except (aiohttp.ClientError, ConnectionError):
            return  # its leases expire

    async def _listen(self, record: Record, messages: list[Message], turn: TurnPlan, heard: list[str]) -> None:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": messages,
            "max_tokens": turn.answer,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if turn.tools:  # its words, the call itself, and the end
            body |= {"tools": TOOLS, "tool_choice": "required", "max_tokens": 4096}
        headers = {"x-session-id": record.conversation}
        async with self._http.post(f"{self._url}/v1/chat/completions", json=body, headers=headers) as response:
            record.status = response.status
            if response.status != HTTPStatus.OK:
                failed = response.status >= HTTPStatus.INTERNAL_SERVER_ERROR
                record.outcome = Outcome.FAILED if failed else Outcome.REFUSED
                record.why = _told(await response.text())
                return
            async for event in _events(response):
                self._hear(record, event, heard)

    def _hear(self, record: Record, event: bytes, heard: list[str]) -> None:
        if event == b"[DONE]":
            record.outcome = record.outcome if record.why else Outcome.OK
            return
        said = json.loads(event)
        if "error" in said:  # the gateway's last word on an answer that broke
            record.why = _message(said["error"])
            return
        if (said.get("kvlease_sim") or {}).get("wrong"):
            record.outcome, record.why = Outcome.WRONG, "the engine saw wrong KV"
        if usage := said.get("usage"):
            record.prompt_tokens, record.total_tokens = usage["prompt_tokens"], usage["total_tokens"]
            record.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        for choice in said["choices"]:
            if word := _word(choice["delta"]):
                heard.append(word)
                if record.first is None:
                    record.first = self._clock() - record.begun


def _told(body: str) -> str:
    """Returns what the body of a refusal says, whether or not it has OpenAI's form."""
    try:
        return _message(json.loads(body)["error"])
    except (ValueError, LookupError, TypeError):
        return body[:_LONGEST]


def _message(error: Any) -> str:
    """Returns OpenAI's message; of an error without one, all of it. Never nothing."""
    message = error.get("message") if isinstance(error, dict) else None
    return str(message or error or "an error")[:_LONGEST]


def _word(delta: dict[str, Any]) -> str:
    if calls := delta.get("tool_calls"):
        return str(calls[0]["function"]["arguments"])
    return delta.get("content") or ""


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yields the data of server-sent events."""
    async for line in response.content:
        if line.startswith(b"data: "):
            yield line[6:].rstrip()
