"""What users hold: a conversation whose leases are renewed, and in which they may chat."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar
from weakref import WeakSet

from kvlease.client.completions import Ask
from kvlease.client.keeper import Keeper
from kvlease.client.renewal import Hold

if TYPE_CHECKING:
    from kvlease.client import chat

TURN_TIMEOUT = 600.0
_NONE: Mapping[str, str] = MappingProxyType({})

AnswerT = TypeVar("AnswerT")


class Conversation(Generic[AnswerT]):
    """A conversation that is held, until its `with` block is left: its leases are renewed, its answers can be read."""

    def __init__(self, hold: Hold, keeper: Keeper, serve: Callable[[Ask], AnswerT]) -> None:
        """Shows *hold*, which *keeper* renews; *serve* takes a turn."""
        self._hold = hold
        self._keeper = keeper
        self._serve = serve
        self._answers: WeakSet[AnswerT] = WeakSet()

    @property
    def answers(self) -> list[AnswerT]:
        """Those that somebody still has hold of; they are closed when the block is left."""
        return list(self._answers)

    @property
    def conversation_id(self) -> str:
        return self._hold.conversation_id

    @property
    def remaining(self) -> float:
        """Seconds for which its KV stays, if no renewal came through any more; 0 if it is not held."""
        return self._hold.remaining(self._keeper.clock())

    @property
    def held(self) -> bool:
        """Whether its KV is there, by all that this client has heard: the last renewal, and what came since.

        False before the first lease, and True again with the next one. At once False after `end` and `revoke` on this
        client, after a turn whose engine broke off, and once the registry was asked three times in vain; what others
        end is noticed by the next renewal, a third of the ttl later, and 15 s at the latest.
        """
        return self.remaining > 0

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        model: str,
        timeout: float = TURN_TIMEOUT,
        headers: Mapping[str, str] = _NONE,
        **options: Any,
    ) -> AnswerT:
        """Runs a turn through router and engines, without a gateway; gives the answer, to be iterated over.

        For the next turn append its `message` and the user's next one to *messages*: what is repeated exactly is
        reused. Needs `kvlease[client]`, and a way to the engines.

        Args:
            messages: The whole history, as OpenAI's API takes it.
            model: As engines call it.
            timeout: Seconds for the whole turn.
            headers: To be sent to both engines, such as `authorization` or `traceparent`.
            options: Other members of the request: `max_tokens`, `tools`, `temperature`, ...

        Raises (while iterating):
            NoEngine, ModelNotFound: Nobody can serve it.
            EngineRefused: The engine does not like the request, or all tries failed.
            EngineUnreachable, AnswerBroken: All tries failed, or the answer broke off after it had begun.
            DeadlineExceeded: It took longer than *timeout*.
        """
        answer = self._serve(
            Ask.of(
                self.conversation_id,
                messages,
                model=model,
                timeout=timeout,
                headers=headers,
                options=options,
                answered=lambda: self._keeper.expect(self._hold),
                failed=lambda error: self._keeper.failed(self._hold, error),
            )
        )
        self._answers.add(answer)
        return answer


class _Unentered:
    """A conversation whose block was not entered yet."""

    _entered_by = "with"
    _entered = False

    def _enter_once(self) -> None:
        if self._entered:
            raise RuntimeError("a block holds its conversation once: call client.conversation(...) for each block")
        self._entered = True

    if not TYPE_CHECKING:  # type checkers see by themselves that it has no such member

        def __getattr__(self, name: str) -> NoReturn:
            """Says what to do about one of a conversation's members."""
            if name.startswith("_") or not hasattr(Conversation, name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            way = f"{self._entered_by} client.conversation(...) as conversation:"
            raise AttributeError(f"a conversation is held in a block: write `{way}`, and there `conversation.{name}`")


class Block(_Unentered, AbstractContextManager[Conversation[AnswerT]]):
    """What holds a conversation: `with client.conversation("42") as conversation`."""

    def __init__(self, held: AbstractContextManager[Conversation[AnswerT]]) -> None:
        self._held = held

    def __enter__(self) -> Conversation[AnswerT]:
        """Begins to hold it. Raises RuntimeError the second time."""
        self._enter_once()
        return self._held.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Takes back what was not answered to its end, and lets go of it."""
        return self._held.__exit__(kind, error, trace)


class AsyncBlock(_Unentered, AbstractAsyncContextManager[Conversation[AnswerT]]):
    """What holds a conversation: `async with client.conversation("42") as conversation`."""

    _entered_by = "async with"

    def __init__(self, held: AbstractAsyncContextManager[Conversation[AnswerT]]) -> None:
        self._held = held

    async def __aenter__(self) -> Conversation[AnswerT]:
        """Begins to hold it. Raises RuntimeError the second time."""
        self._enter_once()
        return await self._held.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Takes back what was not answered to its end, and lets go of it."""
        return await self._held.__aexit__(kind, error, trace)


def engines_of(routes: "chat.Routes") -> "chat.Engines":
    """Makes what turns are served with. Raises ImportError where the HTTP client is not installed."""
    try:
        from kvlease.client import chat  # noqa: PLC0415 - connectors need no HTTP
    except ModuleNotFoundError as error:
        raise ImportError("chat() needs an HTTP client: pip install 'kvlease[client]'") from error
    return chat.Engines(routes)
