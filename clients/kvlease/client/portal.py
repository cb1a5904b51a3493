"""A way from threads to asyncio: an event loop in a thread of its own, for the turns of the client for threads."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from kvlease.client.errors import ClientClosed

T = TypeVar("T")


class Portal:
    """Runs coroutines for any thread. Starts with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._process = 0
        """In which the thread runs."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for a coroutine; one whose caller is interrupted is cancelled.

        Raises ClientClosed after `close`, and in a fork of the process in which it was started: threads are not copied.
        """
        try:
            loop = self._started()
        except ClientClosed:
            work.close()
            raise
        running = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return running.result()
        finally:
            running.cancel()

    def close(self) -> None:
        """Ends the loop and its thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            self._closed = True
        if loop is not None and thread is not None and self._process == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise ClientClosed("the client is closed: make a new one")
            if self._loop is None:
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="kvlease-portal", daemon=True)
                self._thread.start()
            if self._process != os.getpid():
                raise ClientClosed("the client has answers of before this process was forked: make a new one here")
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the loop until it is stopped, then ends what is left on it."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
