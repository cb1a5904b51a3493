"""One completion over HTTP, whole or streamed, with token ids in and out; times are those that the client sees.

Prompts are long: each is written as JSON once, before the clock starts, and answers do not repeat it.
"""

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

PATH = "/v1/completions"
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
_ALTERNATIVES = 20  # log-probabilities told for each position
_TOKEN = "token_id:"  # noqa: S105 - how vLLM names a token instead of writing it
_HEADERS = {"Content-Type": "application/json"}


class RequestFailed(Exception):
    """No whole answer came."""


@dataclass(slots=True)
class Answer:
    """What came back. Times in seconds."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    alternatives: list[dict[str, float]] = field(default_factory=list)  # the likeliest tokens of each position
    cached_tokens: int = 0  # of the prompt, as the usage says
    ttft: float = 0.0  # counted from `begun`
    elapsed: float = 0.0
    transfer: dict[str, Any] | None = None  # stock's parameters for the next leg

    def take(self, choice: Mapping[str, Any]) -> None:
        """Adds what a choice says."""
        if told := choice.get("logprobs"):
            self.tokens += [int(name.removeprefix(_TOKEN)) for name in told["tokens"]]
            self.logprobs += told["token_logprobs"]
            self.alternatives += told["top_logprobs"]

    def cut(self, tokens: int) -> Self:
        """Drops what goes beyond so many tokens."""
        del self.tokens[tokens:], self.logprobs[tokens:], self.alternatives[tokens:]
        return self


class Prompt:
    """Token ids, and their JSON."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tuple(tokens)
        self._json = json.dumps(self.tokens).encode()

    def request(self, model: str, *, answer: int, salt: str, **more: Any) -> bytes:
        """Asks for the likeliest answer of exactly so many tokens; `salt` keeps prefix caches apart."""
        asked = {
            "model": model,
            "max_tokens": answer,
            "temperature": 0,
            "ignore_eos": True,
            "logprobs": _ALTERNATIVES,
            "return_tokens_as_token_ids": True,
            "cache_salt": salt,
            **more,
        }
        return b'%b,"prompt":%b}' % (json.dumps(asked).encode().removesuffix(b"}"), self._json)


async def whole(http: aiohttp.ClientSession, url: str, request: bytes, **headers: str) -> Answer:
    """Asks for a whole answer.

    Raises:
        RequestFailed: there was none.
    """
    begun = time.perf_counter()
    try:
        async with http.post(f"{url}{PATH}", data=request, headers=_HEADERS | headers) as response:
            told = await response.json()
            if response.status != 200:
                raise RequestFailed(f"{url} answered {response.status}: {str(told)[:500]}")
    except aiohttp.ClientError as error:
        raise RequestFailed(f"{url}: {error!r}") from error
    answer = Answer(elapsed=time.perf_counter() - begun, transfer=told.get("kv_transfer_params"))
    answer.cached_tokens = _cached(told.get("usage"))
    answer.take(told["choices"][0])
    return answer


async def stream(
    http: aiohttp.ClientSession,
    url: str,
    request: bytes,
    *,
    begun: float,
    leave_after: int | None = None,
    **headers: str,
) -> Answer:
    """Sends a request made with `STREAMED`; leaves once it has so many tokens of the answer, which aborts it.

    The turn has *begun* then, by `time.perf_counter`.

    Raises:
        RequestFailed: it broke off, or there was none.
    """
    answer = Answer()
    try:
        async with http.post(f"{url}{PATH}", data=request, headers=_HEADERS | headers) as response:
            if response.status != 200:
                raise RequestFailed(f"{url} answered {response.status}: {(await response.text())[:500]}")
            async for event in _events(response.content):
                _follow(answer, event, begun)
                if leave_after and len(answer.tokens) >= leave_after:
                    response.close()
                    answer.cut(leave_after)
                    break
    except aiohttp.ClientError as error:
        raise RequestFailed(f"{url}: {error!r}") from error
    if not answer.tokens:
        raise RequestFailed(f"{url} streamed no token")
    answer.elapsed = time.perf_counter() - begun
    return answer


def _follow(answer: Answer, event: Mapping[str, Any], begun: float) -> None:
    if "error" in event:
        raise RequestFailed(str(event["error"]))
    for choice in event.get("choices", ()):
        answer.take(choice)
    if answer.tokens and not answer.ttft:
        answer.ttft = time.perf_counter() - begun
    if usage := event.get("usage"):
        answer.cached_tokens = _cached(usage)


async def _events(lines: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    async for line in lines:
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


def _cached(usage: Mapping[str, Any] | None) -> int:
    return int(((usage or {}).get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
