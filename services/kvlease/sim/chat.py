"""Answers in OpenAI's words: as events while they come, or whole at their end."""

import json
from collections.abc import Sequence
from typing import Any

from kvlease.sim.answer import WORD_BYTES
from kvlease.sim.http import SSE, Reply, framed
from kvlease.sim.request import Finish, Request

_MARK = "@#@#"  # stands for a word in a template, and is as long as one


class Shape:
    """One API: the names that its answers use."""

    def __init__(
        self,
        *,
        chat: bool,
        tools: bool,
        name: str,
        model: str,
        created: int,
        logprobs: bool = False,
        token_ids: bool = False,
    ) -> None:
        """Takes the answer's *name*; an answer that calls a tool is put into the call's arguments.

        Whole completions tell *logprobs*, all of them 0, and *token_ids* on demand.
        """
        self.chat, self.tools = chat, tools
        self._logprobs, self._token_ids = logprobs, token_ids
        self._name = f"{'chatcmpl' if chat else 'cmpl'}-{name}"
        self._model, self._created = model, created

    def event(self, text: str | None, finish: Finish | None = None, **more: Any) -> bytes:
        """Returns an event with a piece of the answer."""
        choice = {"index": 0, **self._piece(text), "logprobs": None, "finish_reason": finish.value if finish else None}
        return self.raw_event([choice], **more)

    def raw_event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        """Returns an event with these choices."""
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return b"data: %b\n\n" % self._dump(kind, choices, more)

    def whole(self, text: str, tokens: Sequence[int], finish: Finish, **more: Any) -> bytes:
        """Returns the answer in one piece."""
        if not self.chat:
            said: dict[str, Any] = {"text": text, "logprobs": self._sure_of(tokens)}
            if self._token_ids:
                said["token_ids"] = list(tokens)
        elif self.tools and finish is Finish.TOOLS:
            said = {"message": {"role": "assistant", "content": None, "tool_calls": [self._call(text)]}}
        else:
            said = {"message": {"role": "assistant", "content": text}}
        choice = {"index": 0, "logprobs": None, **said, "finish_reason": finish.value}
        return self._dump("chat.completion" if self.chat else "text_completion", [choice], more)

    def opening(self) -> bytes:
        """Returns the event that comes before the first word, if the API has one."""
        if not self.chat:
            return b""
        delta: dict[str, Any] = {"role": "assistant", "content": ""}
        if self.tools:
            delta["tool_calls"] = [{"index": 0} | self._call("")]
        return self.raw_event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])

    def _piece(self, text: str | None) -> dict[str, Any]:
        if not self.chat:
            return {"text": text or ""}
        if text is None:
            return {"delta": {}}
        if self.tools:
            return {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}}
        return {"delta": {"content": text}}

    def _sure_of(self, tokens: Sequence[int]) -> dict[str, Any] | None:
        return {"token_logprobs": [0.0] * len(tokens)} if self._logprobs else None

    def _call(self, arguments: str) -> dict[str, Any]:
        return {
            "id": f"call-{self._name}",
            "type": "function",
            "function": {"name": "look", "arguments": arguments},
        }

    def _dump(self, kind: str, choices: list[dict[str, Any]], more: dict[str, Any]) -> bytes:
        answer = {"id": self._name, "object": kind, "created": self._created, "model": self._model, "choices": choices}
        return json.dumps(answer | more, separators=(",", ":")).encode()


class Streamed:
    """Sends each word as an event of its own."""

    def __init__(self, reply: Reply, shape: Shape, *, usage: bool, headers: bytes) -> None:
        """Sends *usage* in an event of its own, if it is wanted."""
        self._reply, self._shape, self._usage, self._headers = reply, shape, usage, headers
        self._head, _, self._tail = framed(shape.event(_MARK)).rpartition(_MARK.encode())
        self._begun = False

    def begin(self, request: Request) -> None:
        """Sends the head."""
        self._begun = True
        self._reply.begin(SSE, self._shape.opening(), self._headers + _wrong_header(request))

    def word(self, word: int) -> None:
        """Sends one word."""
        self._reply.write(self._head + WORD_BYTES[word] + self._tail)

    def end(self, request: Request, finish: Finish) -> None:
        """Sends what comes behind the last word."""
        if not self._begun:
            self.begin(request)
        last = self._shape.event(None, finish, **_wrong(request))
        if self._usage:
            last += self._shape.raw_event([], usage=_usage(request))
        self._reply.end(last + b"data: [DONE]\n\n")


class Whole:
    """Sends the answer at its end."""

    def __init__(self, reply: Reply, shape: Shape, *, headers: bytes) -> None:
        self._reply, self._shape, self._headers = reply, shape, headers
        self._words: list[bytes] = []

    def begin(self, request: Request) -> None:
        """Nothing to send yet."""

    def word(self, word: int) -> None:
        """Keeps one word."""
        self._words.append(WORD_BYTES[word])

    def end(self, request: Request, finish: Finish) -> None:
        """Sends all."""
        more: dict[str, Any] = {"usage": _usage(request), "kv_transfer_params": request.returned_params}
        tokens = request.sequence.tokens[request.num_prompt_tokens :]
        body = self._shape.whole(b"".join(self._words).decode(), tokens, finish, **more, **_wrong(request))
        self._reply.send(200, body, extra=self._headers + _wrong_header(request))


def _usage(request: Request) -> dict[str, Any]:
    return {
        "prompt_tokens": request.num_prompt_tokens,
        "total_tokens": request.num_tokens,
        "completion_tokens": request.num_output_tokens,
        "prompt_tokens_details": {"cached_tokens": request.cached or 0},
    }


def _wrong(request: Request) -> dict[str, Any]:
    return {"kvlease_sim": {"wrong": True}} if request.wrong else {}


def _wrong_header(request: Request) -> bytes:
    return b"x-kvlease-sim-wrong: 1\r\n" if request.wrong else b""
