"""The trace that a call belongs to, as W3C Trace Context writes it. No tracing library is needed to hand it on.

Every call of this package carries `current()` as metadata. Services set it around what they serve, and the connector
around what it asks for a request.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

Headers: TypeAlias = tuple[tuple[str, str], ...]

PARENT, STATE = "traceparent", "tracestate"
_PARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MOST_STATE = 512  # characters; whoever hands a longer one on may drop it

_current: ContextVar[Headers] = ContextVar("trace", default=())


def current() -> Headers:
    """Returns the headers of the trace that is being worked for; none if it is none."""
    return _current.get()


@contextmanager
def carrying(headers: Headers) -> Iterator[None]:
    """Sets the trace for what is called, and for tasks and callbacks that are started, inside."""
    token = _current.set(headers)
    try:
        yield
    finally:
        _current.reset(token)


def read(given: Iterable[tuple[str, str | bytes]]) -> Headers:
    """Picks a trace's headers out of others, whose names are in lower case; none where there is no good one."""
    parent = state = ""
    for name, value in given:
        if name == PARENT:
            parent = _text(value)
        elif name == STATE:
            state = _text(value)
    if not _PARENT.fullmatch(parent) or parent.startswith("ff"):
        return ()
    kept = 0 < len(state) <= _MOST_STATE and state.isascii() and state.isprintable()
    return ((PARENT, parent), (STATE, state)) if kept else ((PARENT, parent),)


def trace_id(headers: Headers) -> str:
    """Returns the trace's id in hexadecimal; "" where there is none."""
    return headers[0][1].split("-")[1] if headers else ""


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
