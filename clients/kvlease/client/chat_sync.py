"""Turns for threads: those of `kvlease.client.chat`, on an event loop of their own."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from kvlease.client.aio import Client
from kvlease.client.answer import Chunk
from kvlease.client.completions import Ask
from kvlease.client.conversation import engines_of
from kvlease.client.errors import ClientClosed
from kvlease.client.portal import Portal
from kvlease.client.types import PrefillReport

if TYPE_CHECKING:
    from kvlease.client import chat


class Answer(Iterator[Chunk]):
    """A turn's answer: to be iterated over once, by one thread, and read when that is over.

    Nothing is sent before the first chunk is asked for. An answer that is left early is taken back, so that both
    engines drop the request: at once by `close`, which any thread may call, or on leaving its own `with` block or its
    conversation's; also when nobody has hold of it any more.
    """

    def __init__(self, portal: Portal, answer: "chat.Answer") -> None:
        """Shows *answer*, which lives on the portal's loop."""
        self._portal = portal
        self._answer = answer

    @property
    def report(self) -> PrefillReport | None:
        """How the prompt's KV came about; None: not known, or decode computed it all."""
        return self._answer.report

    @property
    def message(self) -> dict[str, Any]:
        """The assistant's message (of the first choice), as it goes into the next turn's messages.

        Whole once the answer was iterated over to its end, else what came of it so far.

        Raises:
            NotAnswered: Nothing has come yet.
        """
        return self._answer.message

    @property
    def text(self) -> str:
        """Its content so far."""
        return self._answer.text

    @property
    def finish_reason(self) -> str | None:
        """Why the first choice ended; None: it has not."""
        return self._answer.finish_reason

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """What the engine counted, if `stream_options` asked for it."""
        return self._answer.usage

    def __next__(self) -> Chunk:
        chunk = self._portal.run(self._next())
        if chunk is None:
            raise StopIteration
        return chunk

    def close(self) -> None:
        """Takes the turn back unless it is over."""
        with suppress(ClientClosed):  # then it was taken back before
            self._portal.run(self._answer.aclose())

    def __enter__(self) -> Self:
        """Gives itself: nothing is sent yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Takes the turn back unless it is over."""
        self.close()

    async def _next(self) -> Chunk | None:
        try:
            return await anext(self._answer)
        except StopAsyncIteration:  # which no future can carry
            return None


class Chats:
    """All turns of one client."""

    def __init__(self, client: Client) -> None:
        """Routes by *client*, which lives on the loop from then on. Starts nothing."""
        self._client = client
        self._portal = Portal()
        self._engines: chat.Engines | None = None
        self._lock = Lock()

    def serve(self, ask: Ask) -> Answer:
        """Begins a turn. Raises ImportError where the HTTP client is not installed."""
        with self._lock:
            self._engines = engines = self._engines or engines_of(self._client)
        return Answer(self._portal, engines.serve(ask))

    def forsake(self, conversation_id: str) -> None:
        """Waits until the conversation's turns of which nobody has hold are taken back."""
        if self._engines is not None:
            with suppress(ClientClosed):  # then they were
                self._portal.run(self._engines.forsake(conversation_id))

    def close(self) -> None:
        """Closes what was opened."""
        with self._lock:
            engines, self._engines = self._engines, None
            if engines is not None:
                with suppress(ClientClosed):  # in a fork, which has nothing to close
                    self._portal.run(engines.close())
                    self._portal.run(self._client.close())
            self._portal.close()
