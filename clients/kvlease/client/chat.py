"""Turns that the client drives itself, without a gateway: `serving` says how."""

import asyncio
import socket
import weakref
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any, Protocol, Self

import httpx2

from kvlease.client.answer import Chunk
from kvlease.client.completions import Ask
from kvlease.client.errors import NotAnswered
from kvlease.client.serving import LAST_WORDS, Serving
from kvlease.client.types import Endpoint, EngineRef, Leg, PrefillReport, StopReason, Turn

CONNECT_TIMEOUT = 2.0
# vLLM closes a connection that was idle for 5 s; ours go first, so that few requests meet a closing one.
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=3.0)
# A host that is gone without a word is noticed within half a minute.
_KEEPALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)  # not everywhere
]


class Routes(Protocol):
    """The router's part in a turn."""

    async def route(
        self,
        model: str,
        *,
        conversation_id: str,
        prompt_tokens: int,
        exclude: Sequence[EngineRef],
        request_id: str,
        timeout: float,
    ) -> Turn: ...

    async def complete(
        self, ticket: str, *, stop_reason: StopReason | None, timeout: float
    ) -> PrefillReport | None: ...

    async def cancel(self, ticket: str, *, leg: Leg | None = None) -> None: ...


class Engines:
    """What all turns of a client share. Belongs to the event loop that it is made in."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.known: dict[str, Endpoint] = {}
        """The decode engine that answered last, by model."""
        self.open: set[Serving] = set()
        """The turns that have begun and are not over, or of which the router has still to hear."""
        self.http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            transport=httpx2.AsyncHTTPTransport(limits=_LIMITS, socket_options=_KEEPALIVE),
            trust_env=False,  # a proxy set for the internet is no way to engines
        )
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, ask: Ask) -> "Answer":
        """Begins a turn."""
        return Answer(Serving(self, ask))

    def later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs *work*, which must not raise; nobody need wait for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def forsake(self, conversation_id: str) -> None:
        """Waits until the conversation's turns of which nobody has hold are taken back: what comes next comes after."""
        left = [x for x in self.open if x.abandoned and x.conversation_id == conversation_id]
        await asyncio.gather(*(serving.close() for serving in left))

    async def close(self) -> None:
        """Takes back turns that nobody reads to their end, gives last words a moment, and closes all connections."""
        await asyncio.gather(*(serving.close() for serving in self.open))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WORDS)
        for task in self._tasks:
            task.cancel()
        await self.http.aclose()


class Answer(AsyncIterator[Chunk]):
    """A turn's answer: to be iterated over once, and read when that is over.

    Nothing is sent before the first chunk is asked for. An answer that is left early is taken back, so that both
    engines drop the request: at once by `aclose`, or on leaving its own `async with` block or its conversation's; also
    when nobody has hold of it any more.
    """

    def __init__(self, serving: Serving) -> None:
        """Shows *serving*, which knows nothing of this: so it can tell that its reader is gone."""
        self._serving = serving
        weakref.finalize(self, serving.abandon).atexit = False

    @property
    def report(self) -> PrefillReport | None:
        """How the prompt's KV came about; None: not known, or decode computed it all."""
        return self._serving.report

    @property
    def message(self) -> dict[str, Any]:
        """The assistant's message (of the first choice), as it goes into the next turn's messages.

        Whole once the answer was iterated over to its end, else what came of it so far.

        Raises:
            NotAnswered: Nothing has come yet.
        """
        if not self._serving.gathered.begun:
            raise NotAnswered("nothing was answered yet: iterate over the answer, then read its message")
        return self._serving.gathered.message

    @property
    def text(self) -> str:
        """Its content so far."""
        return self._serving.gathered.message["content"] or ""

    @property
    def finish_reason(self) -> str | None:
        """Why the first choice ended; None: it has not."""
        return self._serving.gathered.finish_reasons.get(0)

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """What the engine counted, if `stream_options` asked for it."""
        return self._serving.gathered.usage

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        return await self._serving.read()

    async def aclose(self) -> None:
        """Takes the turn back unless it is over."""
        await self._serving.close()

    async def __aenter__(self) -> Self:
        """Gives itself: nothing is sent yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Takes the turn back unless it is over."""
        await self.aclose()
