"""Many questions, few calls."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Batch(Generic[K, V]):
    """Asks few calls at a time: what is asked meanwhile goes with the next one. Nothing is held back, and nothing kept.

    A question alone goes at once. The more come, the more share a call, which costs little more than one. Where there
    may be two calls at a time, one that is lost does not keep what comes after it.
    """

    def __init__(
        self, ask: Callable[[Sequence[K], float], Awaitable[Sequence[V]]], *, most: int, at_a_time: int
    ) -> None:
        """Calls *ask* with at most *most* questions and the longest wait among them; answers come in their order."""
        self._ask = ask
        self._most = most
        self._at_a_time = at_a_time
        self._waiting: list[tuple[K, float, asyncio.Future[V]]] = []
        self._asking = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def get(self, key: K, wait: float) -> V:
        """Returns the answer. Raises what the call raised, to all who share it."""
        answer: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, wait, answer))
        if self._asking < self._at_a_time:
            self._asking += 1  # not the tasks are counted: one that is at its end takes no more questions
            task = asyncio.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                wanted = [each for each in taken if not each[2].done()]  # some have given up meanwhile
                if wanted:
                    await self._settle(wanted)
        finally:
            self._asking -= 1

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
