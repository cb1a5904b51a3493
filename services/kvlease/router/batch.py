"""Many questions, few calls."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MANY = 4
"""Questions that share a call where many come: then it costs less to let more gather for the next one."""
ENOUGH = 16
"""So many do not wait for more."""


class Batch(Generic[K, V]):
    """Asks one call at a time: what is asked meanwhile goes with the next one. Nothing is kept.

    A question alone goes at once. The more come, the more share a call, which costs little more than one; after a call
    for many the next one gathers for a moment. A call that is late does not keep what comes after it: another goes
    beside it.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[K], float], Awaitable[Sequence[V]]],
        *,
        most: int,
        at_a_time: int,
        late: float,
        gather: float,
    ) -> None:
        """Calls *ask* with at most *most* questions and the longest wait among them; answers come in their order.

        A call is late after so many seconds, and others gather for so many; *at_a_time* calls are under way at most.
        """
        self._ask = ask
        self._most = most
        self._at_a_time = at_a_time
        self._late = late
        self._gather = gather
        self._waiting: list[tuple[K, float, asyncio.Future[V]]] = []
        self._calls: set[asyncio.Task[int]] = set()
        self._newest: asyncio.Task[int] | None = None
        """The call that is under way and not late, or after which others gather."""

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
        loop = asyncio.get_running_loop()
        self._newest = call = asyncio.create_task(self._call())
        self._calls.add(call)
        late = loop.call_later(self._late, self._pass, call)

        def over(_: object) -> None:
            late.cancel()
            self._calls.discard(call)
            if not call.cancelled() and call.result() >= MANY and len(self._waiting) < ENOUGH:
                loop.call_later(self._gather, self._pass, call)
            else:
                self._pass(call)

        call.add_done_callback(over)

    def _pass(self, call: asyncio.Task[int]) -> None:
        """Lets the next call begin: this one is over, or late."""
        if self._newest is call:
            self._newest = None
        if self._newest is None:
            self._go()

    async def _call(self) -> int:
        """Asks what waits; returns how many did."""
        taken, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        wanted = [each for each in taken if not each[2].done()]  # some have given up meanwhile
        if wanted:
            await self._settle(wanted)
        return len(wanted)

    async def _settle(self, wanted: Sequence[tuple[K, float, asyncio.Future[V]]]) -> None:
        try:
            answers = await self._ask([key for key, _, _ in wanted], max(wait for _, wait, _ in wanted))
            settled = list(zip(wanted, answers, strict=True))
        except Exception as error:  # noqa: BLE001 - whatever it is, those who asked are told
            for _, _, answer in wanted:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, _, answer), told in settled:
            if not answer.done():
                answer.set_result(told)


def _give_up(answer: asyncio.Future[V]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())
