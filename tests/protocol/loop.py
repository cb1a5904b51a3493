# mypy: disable-error-code="override, assignment"
"""The event loop of one pretended process: it runs only when told to, by the process's own clock."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextvars import Context
from itertools import count
from typing import Any

RESOLUTION = 1e-6
"""Seconds. A timer that is due so soon is due: instants are converted between clocks."""


class Loop(asyncio.AbstractEventLoop):
    """Runs callbacks and timers; has no files and no threads. Errors that nobody handles are collected."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.errors: list[BaseException] = []
        self._clock = clock
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._order = count()

    # -- told by the world

    @property
    def ready(self) -> bool:
        """Whether something can run now."""
        return bool(self._ready)

    def due(self) -> float | None:
        """When the next timer is due, on the loop's clock."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def run_now(self) -> None:
        """Runs all that can run at this instant."""
        asyncio._set_running_loop(self)
        try:
            while self._take_due():
                for _ in range(len(self._ready)):
                    handle = self._ready.popleft()
                    if not handle.cancelled():
                        handle._run()
        finally:
            asyncio._set_running_loop(None)

    def kill(self) -> None:
        """Ends all tasks, as far as they let themselves be ended; whatever they still do is nobody's business."""
        self.run_now()  # what was only just begun
        while tasks := asyncio.all_tasks(self):
            self._timers.clear()
            for task in tasks:
                task.cancel()
            self.run_now()
        self._timers.clear()
        self.errors.clear()

    def _take_due(self) -> bool:
        now = self._clock() + RESOLUTION
        while (when := self.due()) is not None and when <= now:
            self._ready.append(heapq.heappop(self._timers)[2])
        return bool(self._ready)

    # -- asked by asyncio

    def time(self) -> float:
        return self._clock()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._clock() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    async def create_connection(self, protocol_factory: Any, *_: Any, **__: Any) -> Any:
        """Connects to nothing: who asks wants to know whether an engine serves, and it does."""
        return _Closed(), protocol_factory()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context.get("exception") or RuntimeError(str(context)))

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are passed over when they come to the top."""


class _Closed(asyncio.Transport):
    def close(self) -> None:
        """Nothing is open."""

    def is_closing(self) -> bool:
        return True
