"""Who asks for a turn, one class for each way: through one OpenAI endpoint, or as a stock proxy does."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from benchmarks.multiturn.requests import STREAMED, Answer, Prompt, RequestFailed, stream, whole

_LEFT_UNSAID = 64  # tokens that a client who will leave asks for beyond those that it reads
_NO_HANDLE: Mapping[str, Any] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


@dataclass(frozen=True, slots=True)
class Ask:
    """One turn of a conversation."""

    conversation: str
    prompt: Prompt
    answer: int  # tokens
    streamed: bool


class Driver(Protocol):
    """Holds conversations one way."""

    async def turn(self, ask: Ask) -> Answer:
        """Raises RequestFailed without a whole answer."""
        ...


class EndpointDriver:
    """Asks one OpenAI endpoint, which does the rest: a gateway, or an engine alone."""

    def __init__(self, http: aiohttp.ClientSession, url: str, model: str, *, named: bool) -> None:
        """With *named*, requests tell their conversation; else the endpoint cannot reuse what it kept."""
        self._http, self._url, self._model, self._named = http, url, model, named

    async def turn(self, ask: Ask) -> Answer:
        """Sends one request."""
        more = {"conversation_id": ask.conversation} if self._named else {}
        if not ask.streamed:
            request = ask.prompt.request(self._model, answer=ask.answer, salt=ask.conversation, **more)
            return await whole(self._http, self._url, request)
        request = ask.prompt.request(self._model, answer=ask.answer, salt=ask.conversation, **STREAMED, **more)
        return await stream(self._http, self._url, request, begun=time.perf_counter())


class StockDriver:
    """Does what a stock proxy does: prefill first, with decode's parameters of the turn before; then decode.

    Streamed answers carry no parameters, so a streamed turn is a conversation's last. Its client leaves instead of
    reading to the end: stock decode pins the blocks of an answer that ended, and nobody could ever release them.
    """

    def __init__(self, http: aiohttp.ClientSession, prefill: str, decode: str, model: str, *, reads: bool) -> None:
        """With *reads*, prefill reads what decode kept. Without, it declines it, and decode frees it unread."""
        self._http, self._prefill, self._decode, self._model, self._reads = http, prefill, decode, model, reads
        self._handles: dict[str, Mapping[str, Any]] = {}

    async def turn(self, ask: Ask) -> Answer:
        """Sends both legs, one after the other."""
        begun = time.perf_counter()
        name = {"X-Request-Id": uuid.uuid4().hex}
        handle = await self._run_prefill(ask, name)
        if ask.streamed:
            request = self._request(ask, handle, answer=ask.answer + _LEFT_UNSAID, **STREAMED)
            return await stream(self._http, self._decode, request, begun=begun, leave_after=ask.answer, **name)
        answer = await whole(self._http, self._decode, self._request(ask, handle, answer=ask.answer), **name)
        if answer.transfer:
            self._handles[ask.conversation] = answer.transfer
        return answer

    async def _run_prefill(self, ask: Ask, name: Mapping[str, str]) -> Mapping[str, Any]:
        handle = self._handles.pop(ask.conversation, _NO_HANDLE)
        if not self._reads and handle is not _NO_HANDLE:
            handle = {**handle, "remote_num_tokens": 0}
        request = self._request(ask, handle, answer=1, logprobs=None)
        prefilled = await whole(self._http, self._prefill, request, **name)
        if not prefilled.transfer:
            raise RequestFailed(f"{self._prefill} gave no transfer parameters")
        return prefilled.transfer

    def _request(self, ask: Ask, handle: Mapping[str, Any], *, answer: int, **more: Any) -> bytes:
        return ask.prompt.request(self._model, answer=answer, salt=ask.conversation, kv_transfer_params=handle, **more)
