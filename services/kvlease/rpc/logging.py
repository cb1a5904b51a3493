"""structlog for services: JSON lines, or colours on a terminal; every line of a call names its method, id and trace."""

import enum
import logging
import secrets
import sys
from contextvars import ContextVar
from typing import Any, TextIO

import grpc
import structlog
from structlog.typing import EventDict, WrappedLogger

from kvlease.client import trace

CALL_ID_KEY = "x-request-id"
MAX_CALL_ID = 64


class LogFormat(enum.Enum):
    """How lines look; AUTO is HUMAN on a terminal, else JSON."""

    AUTO = "auto"
    JSON = "json"
    HUMAN = "human"


def configure(style: LogFormat = LogFormat.AUTO, *, debug: bool = False, stream: TextIO | None = None) -> None:
    """Sets structlog up for the process; the stream is standard error unless given."""
    out = stream or sys.stderr
    human = style is LogFormat.HUMAN or (style is LogFormat.AUTO and out.isatty())
    last: list[Any] = (
        # without what local variables hold, tokens and prompts among them, which is what it shows by default
        [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if human
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _name_call,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if debug else logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


def name_call(method: str, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
    """Names the method and the call's id (the caller's own, or a random one) in every line of this call's task.

    Costs next to nothing until a line is logged: most calls log none.
    """
    _current.set(_Call(method, context))


class _Call:
    __slots__ = ("_context", "_id", "_method", "_trace_id")

    def __init__(self, method: str, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        self._method = method
        self._context = context
        self._id = self._trace_id = ""

    def name(self, line: EventDict) -> None:
        """Adds the names to a line."""
        if not self._id:
            metadata = dict(self._context.invocation_metadata() or ())
            self._trace_id = trace.trace_id(trace.read(metadata.items()))
            given = metadata.get(CALL_ID_KEY)
            self._id = given[:MAX_CALL_ID] if isinstance(given, str) else secrets.token_hex(4)
        line.setdefault("method", self._method)
        line.setdefault("call", self._id)
        if self._trace_id:
            line.setdefault("trace_id", self._trace_id)


_current: ContextVar[_Call | None] = ContextVar("call", default=None)


def _name_call(_logger: WrappedLogger, _level: str, line: EventDict) -> EventDict:
    """A processor: names the call and the trace that a line is logged in."""
    if call := _current.get():
        call.name(line)
    if carried := trace.current():
        line.setdefault("trace_id", trace.trace_id(carried))
    return line
