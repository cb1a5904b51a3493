"""Spans of calls that come with a trace, and of no others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
import structlog
from google.protobuf.empty_pb2 import Empty
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from structlog.testing import CapturingLogger

from kvlease.client import trace
from kvlease.rpc import Server, Status, Statuses, telemetry
from kvlease.rpc.logging import configure
from kvlease.rpc.tracing import OFF, Spans, exporting
from kvlease.v1 import errors_pb2
from tests.support.servers import a_service

NAME = "kvlease.test.Service"
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CAME = (("traceparent", f"00-{TRACE_ID}-b7ad6b7169203331-01"),)


class Refused(Exception):
    """A caller's fault."""


class Served:
    """A service that notes which trace it works for."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.spans = Spans(self.provider.get_tracer("test"))
        self.seen: list[trace.Headers] = []

    async def answer(self, _request: Empty, _context: Any) -> Empty:
        self.seen.append(trace.current())
        structlog.get_logger().info("served")
        return Empty()

    async def refuse(self, _request: Empty, _context: Any) -> Empty:
        raise Refused("not now")

    async def fail(self, _request: Empty, _context: Any) -> Empty:
        raise RuntimeError("a fault")

    @property
    def finished(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @asynccontextmanager
    async def serving(self, spans: Spans | None = None) -> AsyncIterator[grpc.aio.Channel]:
        methods = {name: (call, Empty) for name, call in (("Answer", self.answer), ("Refuse", self.refuse))}
        methods["Fail"] = (self.fail, Empty)
        statuses: Statuses = {Refused: Status(grpc.StatusCode.NOT_FOUND, errors_pb2.ERROR_REASON_MALFORMED)}
        service = a_service(NAME, methods, statuses)
        with telemetry.served("") as seen:
            async with (
                Server("127.0.0.1:0", [service], telemetry=seen, spans=spans or self.spans) as server,
                grpc.aio.insecure_channel(server.address) as channel,
            ):
                yield channel


async def call(channel: grpc.aio.Channel, method: str, metadata: trace.Headers = ()) -> None:
    rpc = channel.unary_unary(f"/{NAME}/{method}", Empty.SerializeToString, Empty.FromString)
    await rpc(Empty(), metadata=metadata)


async def test_a_call_of_a_trace_has_a_span_in_it_which_what_it_calls_belongs_to() -> None:
    served = Served()
    async with served.serving() as channel:
        await call(channel, "Answer", CAME)

    (span,) = served.finished
    assert (span.name, span.kind) == (f"{NAME}/Answer", SpanKind.SERVER)
    assert span.parent is not None
    assert span.parent.span_id == 0xB7AD6B7169203331
    assert dict(span.attributes or {}) == {"rpc.system": "grpc", "rpc.service": NAME, "rpc.method": "Answer"}
    assert served.seen == [(("traceparent", f"00-{TRACE_ID}-{span.context.span_id:016x}-01"),)]


async def test_a_call_without_a_trace_has_no_span() -> None:
    served = Served()
    async with served.serving() as channel:
        await call(channel, "Answer")

    assert served.finished == []
    assert served.seen == [()]


@pytest.mark.parametrize(
    ("method", "code", "status"),
    [("Refuse", grpc.StatusCode.NOT_FOUND, StatusCode.UNSET), ("Fail", grpc.StatusCode.INTERNAL, StatusCode.ERROR)],
)
async def test_only_a_fault_marks_a_span_as_an_error(method: str, code: grpc.StatusCode, status: StatusCode) -> None:
    served = Served()
    async with served.serving() as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await call(channel, method, CAME)

    (span,) = served.finished
    assert span.status.status_code is status
    assert (span.attributes or {})["rpc.grpc.status_code"] == code.value[0]


@pytest.mark.parametrize("off", [False, True])
async def test_a_line_that_is_logged_in_a_trace_names_it_also_where_no_spans_are_made(*, off: bool) -> None:
    logger, served = CapturingLogger(), Served()
    configure()
    structlog.configure(logger_factory=lambda *_: logger)
    try:
        async with served.serving(OFF if off else None) as channel:
            await call(channel, "Answer", CAME)
            await call(channel, "Answer")
    finally:
        structlog.reset_defaults()

    first, second = (entry.args[0] for entry in logger.calls)
    assert f'"trace_id": "{TRACE_ID}"' in first
    assert "trace_id" not in second


def test_nothing_is_exported_unless_the_environment_says_where_to() -> None:
    with exporting("kvlease-router", {"OTEL_SERVICE_NAME": "x"}) as spans:
        assert spans is OFF


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_spans_are_made_where_an_endpoint_is_set(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with exporting("kvlease-router", variables) as spans:
        assert spans is not OFF
