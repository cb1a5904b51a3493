"""The queue on which vLLM's engine core sleeps while it has no work: to wake it, and to sleep on it for a moment.

Waking lets orders be carried out without keeping an idle engine stepping. The queue belongs to the object whose
constructor is building the scheduler, and so the connector, at the moment `find` is called.
"""

import queue
import sys
from types import FrameType
from typing import Any


class Inputs:
    """What comes to the engine core: requests, clients that leave, whatever people ask of it, and our wake-ups."""

    def __init__(self, inputs: "queue.Queue[Any]", wakeup: Any) -> None:
        """Takes the queue, and what vLLM reads from it as a wake-up."""
        self._queue, self._wakeup = inputs, wakeup

    def wake(self) -> None:
        """Lets the engine core look; from any thread."""
        self._queue.put_nowait(self._wakeup)

    def wait(self, seconds: float) -> None:
        """Returns once anything has come, which stays where it is, and after *seconds* at the latest."""
        with self._queue.not_empty:
            if not self._queue.queue:
                self._queue.not_empty.wait(seconds)


def find() -> Inputs | None:
    """Returns the inputs of the engine that is being built; None for engines without a queue (offline use)."""
    from vllm.v1.engine import EngineCoreRequestType  # noqa: PLC0415 - heavy, and only where there is an engine

    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        inputs = getattr(frame.f_locals.get("self"), "input_queue", None)
        if isinstance(inputs, queue.Queue):
            return Inputs(inputs, (EngineCoreRequestType.WAKEUP, None))
        frame = frame.f_back
    return None
