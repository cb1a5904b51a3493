"""An answer while it comes: from a stream's bytes to chunks, and from chunks to the message that goes into the history.

Pure, and written for one kind of stream: the server-sent events of OpenAI's chat completions.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvlease.client.errors import AnswerBroken

DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event of an answer. *data* is all of it, as the engine sent it (a `chat.completion.chunk`)."""

    data: Mapping[str, Any]

    @property
    def text(self) -> str:
        """What it adds to the first choice's content; often empty."""
        return self.delta.get("content") or ""

    @property
    def delta(self) -> Mapping[str, Any]:
        """What it adds to the first choice's message."""
        return next((choice.get("delta") or {} for choice in self.choices if choice.get("index", 0) == 0), {})

    @property
    def choices(self) -> list[Mapping[str, Any]]:
        """All choices that it adds to; none in the event that tells the usage."""
        return self.data.get("choices") or []


class Events:
    """Takes a stream apart."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """Takes some bytes; yields the data of every event that is whole. Lines end as vLLM ends them, or with CRLF."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip().decode()


class Gathered:
    """What has come of one answer."""

    def __init__(self, choices: int) -> None:
        """Expects so many choices."""
        self.done = False
        """The stream said that it is at its end."""
        self.begun = False
        """Something was said."""
        self.finish_reasons: dict[int, str] = {}
        self.usage: Mapping[str, Any] | None = None
        self.message: dict[str, Any] = {"role": "assistant", "content": None}
        self._choices = choices

    @property
    def ended(self) -> bool:
        """Every choice has."""
        return self.done or len(self.finish_reasons) >= self._choices

    def add(self, event: str) -> Chunk | None:
        """Takes the data of an event; gives the chunk that it is, if it is one.

        Raises:
            AnswerBroken: The engine tells of an error, or no JSON.
        """
        if event == DONE:
            self.done = True
            return None
        chunk = _chunk(event)
        self.usage = chunk.data.get("usage") or self.usage
        for choice in chunk.choices:
            self._add_choice(choice)
        return chunk

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        delta, index = choice.get("delta") or {}, choice.get("index", 0)
        reason = choice.get("finish_reason")
        if reason:
            self.finish_reasons[index] = reason
        self.begun = self.begun or bool(reason) or any(value for name, value in delta.items() if name != "role")
        if index == 0:
            _merge(self.message, delta)


def _chunk(event: str) -> Chunk:
    try:
        data = json.loads(event)
    except ValueError as error:
        raise AnswerBroken(f"the engine's event is no JSON: {event[:200]}") from error
    if not isinstance(data, dict) or "error" in data:
        raise AnswerBroken(f"the engine told of an error: {event[:500]}")
    return Chunk(data)


def _merge(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Adds a delta: texts grow, tool calls grow each by its index, the rest is taken over."""
    for name, value in delta.items():
        if name == "tool_calls":
            for call in value or ():
                _merge_call(message.setdefault("tool_calls", []), call)
        elif isinstance(value, str) and name != "role":
            message[name] = (message.get(name) or "") + value
        elif value is not None:
            message[name] = value


def _merge_call(calls: list[dict[str, Any]], delta: Mapping[str, Any]) -> None:
    index = delta.get("index", len(calls))
    while len(calls) <= index:
        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call = calls[index]
    call["id"] = delta.get("id") or call["id"]
    function = delta.get("function") or {}
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""
