"""One streaming chat request as an OpenAI client sends it, with what is worth comparing of the answer."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvlease.local import model, page

Message = Mapping[str, str]

_TIMEOUT = 120.0  # seconds between two events


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. Times in seconds."""

    text: str
    logprobs: tuple[float, ...]
    prompt_tokens: int
    cached_tokens: int  # of the prompt, not computed by prefill
    ttft: float


def ask(url: str, messages: Sequence[Message], *, conversation: str, tokens: range) -> Answer:
    """Asks for the likeliest answer, of so many tokens. Raises OSError without a whole one."""
    body = {
        "model": model.NAME,
        "messages": messages,
        "conversation_id": conversation,
        "temperature": 0,
        "min_tokens": tokens.start,
        "max_tokens": tokens.stop,
        "logprobs": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    begun = time.monotonic()
    with page.opened(f"{url}/v1/chat/completions", body, timeout=_TIMEOUT) as stream:
        return _read(stream, begun)


def _read(stream: Iterable[bytes], begun: float) -> Answer:
    text, logprobs, usage, ttft = "", [], None, None
    for event in map(_event, stream):
        if "error" in event:
            raise OSError(str(event["error"]))
        usage = event.get("usage") or usage
        for choice in event.get("choices", ()):
            said = choice["delta"].get("content")
            if said and ttft is None:
                ttft = time.monotonic() - begun
            text += said or ""
            logprobs += [token["logprob"] for token in (choice.get("logprobs") or {}).get("content") or ()]
    if usage is None or ttft is None:
        raise OSError("the answer broke off")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return Answer(text, tuple(logprobs), usage["prompt_tokens"], cached, ttft)


def _event(line: bytes) -> dict[str, Any]:
    """What a line of the stream says; nothing, if it carries no JSON."""
    if not line.startswith(b"data: {"):
        return {}
    event: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
    return event
