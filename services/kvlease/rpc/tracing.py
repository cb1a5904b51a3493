"""OpenTelemetry spans of what a service does for somebody's trace. Off, and free, unless its environment says where to.

Two things are wanted: `OTEL_EXPORTER_OTLP_ENDPOINT` (or `..._TRACES_ENDPOINT`), and `pip install "kvlease[traces]"`.
The other standard variables hold too. A call without a trace has no span: heartbeats and polls stay out of the way.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import grpc
import structlog

from kvlease.client import trace
from kvlease.rpc import address as addresses
from kvlease.rpc.wrapping import Context, Handler, Wrapping

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_LAST_WORDS = 2.0  # seconds for the last spans when a service stops

log = structlog.get_logger()


class Span:
    """What a span is told while it lasts; nothing where no spans are made."""

    def __init__(self, span: "OtelSpan | None" = None) -> None:
        self._span = span

    def note(self, attributes: Mapping[str, str | int]) -> None:
        """Sets attributes."""
        if self._span is not None:
            self._span.set_attributes(attributes)

    def fail(self, why: str) -> None:
        """Marks it as an error: a fault of ours, not of who called."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - where there is a span, it is there

            self._span.set_status(StatusCode.ERROR, why)


NO_SPAN = Span()


class Spans:
    """Makes the spans of one process."""

    def __init__(self, tracer: "Tracer | None" = None) -> None:
        """Takes an OpenTelemetry tracer; without one traces are handed on as they come."""
        self._tracer = tracer

    @contextmanager
    def serving(self, name: str, came: trace.Headers, attributes: Mapping[str, str | int]) -> Iterator[Span]:
        """Makes a span of what is served inside, in the trace that *came* with it; else it begins one.

        What is called inside carries the trace on. An exception passes: whoever knows what it means marks the span.
        """
        if self._tracer is None:
            with trace.carrying(came):
                yield NO_SPAN
            return
        from opentelemetry.propagate import extract, inject  # noqa: PLC0415 - where there is a tracer, it is there
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        with self._tracer.start_as_current_span(
            name,
            context=extract(dict(came)),
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            written: dict[str, str] = {}
            inject(written)
            with trace.carrying(trace.read(written.items())):
                yield Span(span)


OFF = Spans()


class CallSpans(Wrapping):
    """Spans of the unary calls that come with a trace."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    def wrap(self, method: str, handler: Any) -> Handler:
        """Wraps a method, but for streams."""
        if handler.response_streaming:
            return cast("Handler", handler)
        name, answers = method.removeprefix("/"), handler.unary_unary
        service, _, called = name.partition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": called}

        async def unary(request: Any, context: Context) -> Any:
            came = trace.read(context.invocation_metadata() or ())
            if not came:
                return await answers(request, context)
            with self._spans.serving(name, came, attributes) as span:
                try:
                    return await answers(request, context)
                except grpc.aio.AbortError:
                    _refused(span, context.code())
                    raise

        return grpc.unary_unary_rpc_method_handler(unary, handler.request_deserializer, handler.response_serializer)


def _refused(span: Span, code: Any) -> None:
    """Notes how a call was aborted."""
    number = code.value[0] if isinstance(code, grpc.StatusCode) else int(code)
    span.note({"rpc.grpc.status_code": number})
    if number in _FAULTS:
        span.fail(_FAULTS[number])


_FAULTS: dict[int, str] = {
    code.value[0]: code.name
    for code in (
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    )
}


def check(environment: Mapping[str, str]) -> None:
    """Raises ValueError for a collector's address that is neither a URL nor "host:port"."""
    for name in _ENDPOINTS:
        told = environment.get(name, "")
        if "://" in told:
            addresses.check_url(name, told)
        elif told:
            addresses.check_called(**{name: told})


@contextmanager
def exporting(service: str, environment: Mapping[str, str]) -> Iterator[Spans]:
    """Sends the spans of a process called *service* where the environment says, until left; then the last of them."""
    if not any(environment.get(name) for name in _ENDPOINTS):
        yield OFF
        return
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        exporter = _exporter(environment)
    except ImportError as error:
        log.error('no traces: pip install "kvlease[traces]"', error=str(error))  # noqa: TRY400 - it says it all
        yield OFF
        return
    named = {} if environment.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: service}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield Spans(provider.get_tracer("kvlease"))
    finally:  # a collector that does not answer keeps nobody from stopping
        last = threading.Thread(target=provider.shutdown, daemon=True)
        last.start()
        last.join(_LAST_WORDS)


def _exporter(environment: Mapping[str, str]) -> "SpanExporter":
    """Makes the exporter for the protocol that is asked for; as OpenTelemetry for Python has it, gRPC by default."""
    protocol = next((said for name in _PROTOCOLS if (said := environment.get(name))), "grpc")
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

        return OTLPSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter as HttpSpanExporter,
    )

    return HttpSpanExporter()
