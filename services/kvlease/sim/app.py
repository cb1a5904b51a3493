"""The HTTP side of a simulated engine: OpenAI's API, vLLM's metrics, and the switches for faults."""

import itertools
import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import msgspec

from kvlease.client import trace
from kvlease.sim import tokens
from kvlease.sim.chat import Shape, Streamed, Whole
from kvlease.sim.engine import Engine
from kvlease.sim.faults import Switches
from kvlease.sim.http import HttpRequest, Reply
from kvlease.sim.metrics import exposition
from kvlease.sim.request import Request
from kvlease.sim.sequence import Sequence
from kvlease.sim.settings import Settings

LOOPBACK = ("127.", "::1", "::ffff:127.")
_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
_TRACE = (trace.PARENT, trace.STATE)
_HALF = 0.5  # of the time that a prompt takes: when a connection is dropped


class _Body(msgspec.Struct):
    """What is looked at of a request; the rest is for models."""

    model: str = ""
    messages: Any = None
    prompt: Any = None
    stream: bool | None = False
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = 1
    ignore_eos: bool = False
    tools: list[Any] | None = None
    tool_choice: Any = None
    stream_options: dict[str, Any] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    cache_salt: str | None = None
    logprobs: int | bool | None = None
    return_token_ids: bool | None = None


_body = msgspec.json.Decoder(_Body)


class _RefusedError(Exception):
    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class App:
    """Answers requests with one engine."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        switches: Switches,
        *,
        name: str,
        crash: Callable[[float | None], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """Calls *crash* with the seconds until another start, None: never; *later* with seconds and what to call."""
        self._settings, self._engine, self._switches, self._name = settings, engine, switches, name
        self._crash, self._later = crash, later
        self._numbers = itertools.count()
        self._routes: Mapping[tuple[str, str], Callable[[HttpRequest, Reply], None]] = MappingProxyType(
            {
                ("POST", "/v1/chat/completions"): self._complete,
                ("POST", "/v1/completions"): self._complete,
                ("GET", "/v1/models"): self._models,
                ("GET", "/health"): self._health,
                ("GET", "/metrics"): self._metrics,
                ("POST", "/reset_prefix_cache"): self._reset_cache,
                ("GET", "/admin/faults"): self._faults,
                ("POST", "/admin/faults"): self._set_faults,
                ("POST", "/admin/abort"): self._abort_all,
                ("POST", "/admin/crash"): self._do_crash,
            }
        )

    def handle(self, request: HttpRequest, reply: Reply) -> None:
        """Answers a request, now or when the engine has."""
        path = request.path.partition("?")[0]
        route = self._routes.get((request.method, path), self._unknown)
        if path.startswith("/admin/") and not request.peer.startswith(LOOPBACK):
            route = self._forbidden
        try:
            route(request, reply)
        except _RefusedError as refused:
            error = {"message": str(refused), "type": refused.status.phrase, "code": refused.status.value}
            reply.send(refused.status, json.dumps({"error": error}).encode())

    def _complete(self, http: HttpRequest, reply: Reply) -> None:
        body = self._parsed(http)
        chat = http.path.startswith("/v1/chat/")
        if self._switches.take("fail_next"):
            raise _RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "told to fail")
        request = self._request(body, chat, http.headers.get(b"x-request-id", b"").decode("latin-1"), reply)
        request.trace_headers = {
            name: value.decode("latin-1") for name in _TRACE if (value := http.headers.get(name.encode()))
        }
        reply.gone = lambda: self._engine.abort(request)
        if self._switches.take("drop_next"):
            prefill = self._settings.latency.of_step(request.num_prompt_tokens, 0)
            self._later(_HALF * prefill, reply.abort)
        self._engine.submit(request)

    def _parsed(self, http: HttpRequest) -> _Body:
        try:
            body = _body.decode(http.body)
        except msgspec.DecodeError as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error
        if body.model and body.model != self._settings.model:
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"The model `{body.model}` does not exist.")
        if body.n not in (None, 1):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "a simulated engine gives one choice")
        return body

    def _request(self, body: _Body, chat: bool, name: str, reply: Reply) -> Request:
        try:
            prompt = tokens.of_chat(body.messages) if chat else tokens.of_prompt(body.prompt)
        except tokens.BadPromptError as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error
        room = self._settings.capacity - len(prompt)
        wanted = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        if room < 1 or (wanted is not None and wanted < 1):
            why = f"the prompt has {len(prompt)} tokens; with an answer, {self._settings.capacity} fit"
            raise _RefusedError(HTTPStatus.BAD_REQUEST, why if room < 1 else "max_tokens must be at least 1")
        unique = f"{name or 'request'}-{next(self._numbers)}"
        shape = Shape(
            chat=chat,
            tools=body.tool_choice == "required" and bool(body.tools),
            name=unique,
            model=self._settings.model,
            created=int(time.time()),
            logprobs=bool(body.logprobs),
            token_ids=bool(body.return_token_ids),
        )
        headers = b"x-request-id: %b\r\n" % name.encode("latin-1") if name else b""
        usage = bool((body.stream_options or {}).get("include_usage"))
        most = min(room, room if wanted is None else wanted)
        return Request(
            request_id=unique,
            sequence=Sequence(prompt, self._settings.limits.block_size),
            num_prompt_tokens=len(prompt),
            max_tokens=most,
            natural=most + 1 if body.ignore_eos else self._settings.answer_tokens,
            sink=Streamed(reply, shape, usage=usage, headers=headers)
            if body.stream
            else Whole(reply, shape, headers=headers),
            tools=shape.tools,
            kv_transfer_params=body.kv_transfer_params,
            cache_salt=body.cache_salt,
        )

    def _unknown(self, http: HttpRequest, _: Reply) -> None:
        raise _RefusedError(HTTPStatus.NOT_FOUND, f"there is no {http.method} {http.path}")

    def _forbidden(self, _: HttpRequest, __: Reply) -> None:
        raise _RefusedError(HTTPStatus.FORBIDDEN, "faults are switched from this machine only")

    def _models(self, _: HttpRequest, reply: Reply) -> None:
        model = {"id": self._settings.model, "object": "model", "created": 0, "owned_by": "kvlease"}
        reply.send(200, json.dumps({"object": "list", "data": [model]}).encode())

    def _health(self, _: HttpRequest, reply: Reply) -> None:
        reply.send(200, b"")

    def _metrics(self, _: HttpRequest, reply: Reply) -> None:
        reply.send(200, exposition(self._engine, engine_name=self._name, model=self._settings.model), _TEXT)

    def _reset_cache(self, _: HttpRequest, reply: Reply) -> None:
        self._engine.pool.reset_cache()
        reply.send(200, b"")

    def _faults(self, _: HttpRequest, reply: Reply) -> None:
        reply.send(200, json.dumps(self._switches.left()).encode())

    def _set_faults(self, http: HttpRequest, reply: Reply) -> None:
        try:
            self._switches.set(_object(http.body))
        except ValueError as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error
        self._faults(http, reply)

    def _abort_all(self, _: HttpRequest, reply: Reply) -> None:
        reply.send(200, json.dumps({"aborted": self._engine.abort_all()}).encode())

    def _do_crash(self, http: HttpRequest, reply: Reply) -> None:
        after = _object(http.body or b"{}").get("restart_after")
        if after is not None and not (isinstance(after, int | float) and after >= 0):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "restart_after must be a number of seconds from 0 up")
        reply.send(200, b"{}")
        self._crash(after)


def _object(data: bytes) -> dict[str, Any]:
    """Returns a JSON object. Raises _RefusedError for anything else."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error
