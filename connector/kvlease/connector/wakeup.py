"""Wakes an idle engine, so that orders are carried out without keeping it stepping.

vLLM's engine core sleeps on its input queue while it has no work. The queue belongs to the object whose constructor is
building the scheduler, and so the connector, at the moment `find` is called.
"""

import queue
import sys
from collections.abc import Callable
from types import FrameType


def find() -> Callable[[], None] | None:
    """Returns what wakes the engine that is being built; None in engines without an input queue (offline use)."""
    from vllm.v1.engine import EngineCoreRequestType  # noqa: PLC0415 - heavy, and only where there is an engine

    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        inputs = getattr(frame.f_locals.get("self"), "input_queue", None)
        if isinstance(inputs, queue.Queue):
            return lambda: inputs.put_nowait((EngineCoreRequestType.WAKEUP, None))
        frame = frame.f_back
    return None
