"""The queue on which vLLM's engine core sleeps: here nobody does, and the test says what happens in the meantime."""

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class Pauses(threading.Condition):
    """Notes how long it was to be waited, in seconds, and lets what the test has given happen instead."""

    def __init__(self, lock: Any) -> None:
        super().__init__(lock)
        self.seen: list[float | None] = []
        self.meanwhile: deque[Callable[[], object]] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        self.seen.append(timeout)
        if self.meanwhile:
            self.release()
            self.meanwhile.popleft()()
            self.acquire()
        return True


class Inputs(queue.Queue[Any]):
    """Nothing blocks on it."""

    def __init__(self) -> None:
        super().__init__()
        self.not_empty = self.pauses = Pauses(self.mutex)
