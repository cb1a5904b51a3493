"""Passes decode's stream of events to the client as it comes, and holds its end back until told to let go."""

import asyncio
from collections.abc import Callable

import msgspec

from kvlease.gateway.events import EventStream, Stage, payload, split
from kvlease.gateway.http.answer import Answer
from kvlease.gateway.http.message import end_to_end
from kvlease.gateway.http.reply import Reply
from kvlease.gateway.usage import correct

# The first event of a chat names the role only. An engine that fails then tells so at once; wait for that, not longer.
_OPENING = 0.005
_DONE = b"data: [DONE]\n\n"


class Relay:
    """One stream on its way from decode to the client."""

    def __init__(self, answer: Answer, reply: Reply, choices: int) -> None:
        self.events = EventStream(choices)
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the answer is at its end, has failed, or the stream is over."""
        self._answer = answer
        self._reply = reply
        self._started = False
        self._timer: asyncio.TimerHandle | None = None
        self._on_start: Callable[[], None]

    @property
    def answered(self) -> bool:
        """Whether the stream was an answer: some choice has ended, and nothing went wrong."""
        return self.events.stage is Stage.ENDING and bool(self.events.finish_reasons) and not self.events.broken

    def begin(self, on_start: Callable[[], None]) -> None:
        """Starts to pass events on; calls *on_start* before the first."""
        self._on_start = on_start
        self._reply.draws_from(self._answer)
        self._answer.done.add_done_callback(self._settle)
        self._answer.attach(self._take)

    def end(self, cached_tokens: int | None) -> None:
        """Sends the end that was held back, its usage corrected unless None is given."""
        rest = self.events.rest()
        if cached_tokens is not None:
            rest = b"".join(_corrected(event, cached_tokens) for event in split(rest))
        self._start()
        self._reply.end(rest)

    def fail(self, message: str) -> None:
        """Ends a stream that has begun with an error, as vLLM does, instead of what was held back."""
        error = {"error": {"message": message, "type": "server_error", "param": None, "code": "engine_failed"}}
        self._reply.end(b"data: %b\n\n%b" % (msgspec.json.encode(error), _DONE))

    def _take(self, data: bytes) -> None:
        passed = self.events.feed(data)
        if passed:
            self._start()
            self._reply.write(passed)
        if self.events.stage is Stage.FLOWING:
            return
        if self.events.stage is not Stage.OPENING:
            self._settle()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_OPENING, self._open)

    def _open(self) -> None:
        opening = self.events.open()
        if opening:
            self._start()
            self._reply.write(opening)

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._on_start()
            self._reply.start(self._answer.status, end_to_end(self._answer.headers))

    def _settle(self, _: object = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.settled.done():
            self.settled.set_result(None)


def _corrected(event: bytes, cached_tokens: int) -> bytes:
    data = payload(event)
    return event.replace(data, correct(data, cached_tokens), 1) if b'"usage"' in data else event
