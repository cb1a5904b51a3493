"""Many questions, few calls."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Batch(Generic[K, V]):
    """Asks one call at a time: what is asked meanwhile goes with the next one. Nothing is held back, and nothing kept.

    A question alone goes at once. The more come, the more share a call, which costs little more than one. A call that
    is late does not keep what comes after it: another goes beside it.
    """

    def __init__(
        self, ask: Callable[[Sequence[K], float], Awaitable[Sequence[V]]], *, most: int, at_a_time: int, late: float
    ) -> None:
        """Calls *ask* with at most *most* questions and the longest wait among them; answers come in their order.

        A call is late after so many seconds; *at_a_time* calls are under way at most.
        """
        self._ask = ask
        self._most = most
        self._at_a_time = at_a_time
        self._late = late
        self._waiting: list[tuple[K, float, asyncio.Future[V]]] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._newest: asyncio.Task[None] | None = None
        """The call that is under way and not late."""

    async def get(self, key: K, wait: float) -> V:
        """Returns the answer. Raises TimeoutError after *wait* seconds, else what the call raised, to all of it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[V] = loop.create_future()
        self._waiting.append((key, wait, answer))
        if self._newest is None:
            self._go()
        ends = loop.call_later(wait, _give_up, answer)
        try:
            return await answer
        finally:
            ends.cancel()

    def _go(self) -> None:
        """Begins a call for what waits, if one may begin."""
        if not self._waiting or len(self._calls) >= self._at_a_time:
            return
        self._newest = call = asyncio.create_task(self._call())
        self._calls.add(call)
        late = asyncio.get_running_loop().call_later(self._late, self._pass, call)

        def over(_: object) -> None:
            late.cancel()
            self._calls.discard(call)
            self._pass(call)

        call.add_done_callback(over)

    def _pass(self, call: asyncio.Task[None]) -> None:
        """Takes note that a call is over or late: the next one may begin."""
        if self._newest is call:
            self._newest = None
        if self._newest is None:
            self._go()

    async def _call(self) -> None:
        taken, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        wanted = [each for each in taken if not each[2].done()]  # some have given up meanwhile
        if wanted:
            await self._settle(wanted)

    async def _settle(self, wanted: Sequence[tuple[K, float, asyncio.Future[V]]]) -> None:
        try:
            answers = await self._ask([key for key, _, _ in wanted], max(wait for _, wait, _ in wanted))
        except Exception as error:  # noqa: BLE001 - whatever it is, those who asked are told
            for _, _, answer in wanted:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, _, answer), told in zip(wanted, answers, strict=True):
            if not answer.done():
                answer.set_result(told)


def _give_up(answer: asyncio.Future[V]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())
