"""structlog for services: JSON lines, or colours on a terminal; every line of a call names its method and id."""

import enum
import logging
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import grpc
import structlog

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
        [structlog.dev.ConsoleRenderer(colors=out.isatty())]
        if human
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if debug else logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


@contextmanager
def bound_call(method: str, context: "grpc.aio.ServicerContext[Any, Any]") -> Iterator[None]:
    """Names the method and the call's id (the caller's own, or a random one) in every line logged inside."""
    given = dict(context.invocation_metadata() or ()).get(CALL_ID_KEY)
    call = given[:MAX_CALL_ID] if isinstance(given, str) else secrets.token_hex(4)
    with structlog.contextvars.bound_contextvars(method=method, call=call):
        yield
