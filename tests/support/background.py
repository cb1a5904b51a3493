"""Servers on a thread of their own, for tests that call them from many short-lived examples."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
WAIT = 60.0


@contextmanager
def background(serving: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Enters it on an event loop in another thread; gives what it gives, and leaves it in the end."""
    given: Future[T] = Future()
    stopped = asyncio.Event()

    async def serve() -> None:
        try:
            async with serving() as made:
                given.set_result(made)
                await stopped.wait()
        except BaseException as error:
            if given.done():
                raise
            given.set_exception(error)

    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield given.result(WAIT)
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(WAIT)
        loop.close()
