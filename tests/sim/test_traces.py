"""One trace from the client's request through gateway, router and registry, and back from the engines' connectors."""

from collections.abc import Callable

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kvlease.rpc.tracing import Spans
from tests.sim.stack import Stack, running, until

TURN = "POST /v1/chat/completions"
ROUTER, REGISTRY = "kvlease.v1.RoutingService", "kvlease.v1.RegistryService"
GRANT = f"{REGISTRY}/GrantLease"
MESSAGE = {"role": "user", "content": "word " * 200}


class Traces:
    """What was exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.spans = Spans(provider.get_tracer("test"))

    def grants(self, number: int) -> int:
        """Leases that engines have asked for in one trace."""
        spans = self.exporter.get_finished_spans()
        return sum(span.name == GRANT and span.context.trace_id == number for span in spans)

    def of(self, number: int) -> dict[str, ReadableSpan]:
        """The spans of one trace, by name; one of each."""
        spans = self.exporter.get_finished_spans()
        return {span.name: span for span in spans if span.context.trace_id == number}


async def turn(stack: Stack, number: int) -> None:
    """A turn of one conversation, in the client's trace of that number."""
    headers = {"x-session-id": "talk", "traceparent": f"00-{number:032x}-00f067aa0ba902b7-01"}
    body = {"model": "sim", "messages": [MESSAGE] * number, "max_tokens": 2}
    async with stack.http.post(f"{stack.url}{TURN.split()[1]}", json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()


def parent(spans: dict[str, ReadableSpan], name: str) -> str:
    """The name of the span that caused that one; "" for one outside."""
    above = spans[name].parent
    assert above is not None
    return next((other for other, span in spans.items() if span.context.span_id == above.span_id), "")


def has(traces: Traces, number: int, *names: str) -> Callable[[], bool]:
    return lambda: traces.of(number).keys() >= {*names}


async def test_a_turn_is_one_trace_from_the_client_to_the_registry_and_the_engines() -> None:
    traces = Traces()
    route, locate, end = f"{ROUTER}/Route", f"{REGISTRY}/LocateConversations", f"{REGISTRY}/EndTurn"
    asked = [f"{ROUTER}/ResolveTicket", f"{REGISTRY}/ClaimLease", GRANT, f"{REGISTRY}/FinishClaim"]
    async with running(spans=traces.spans) as stack:
        await turn(stack, 1)
        await until(lambda: traces.grants(1) == 2)  # prefill's, and decode's
        await turn(stack, 2)
        await until(has(traces, 2, TURN, route, locate, end, *asked))

    spans = traces.of(2)
    assert parent(spans, TURN) == ""
    assert parent(spans, route) == TURN
    assert parent(spans, locate) == route
    assert parent(spans, end) == f"{ROUTER}/CompleteTicket"
    assert {parent(spans, name) for name in asked} == {TURN}  # of both engines, by the header that each leg got


async def test_the_gateways_span_says_what_was_reused_and_names_nobody() -> None:
    traces = Traces()
    async with running(spans=traces.spans) as stack:
        await turn(stack, 1)
        await until(lambda: traces.grants(1) == 2)
        await turn(stack, 2)
        await until(has(traces, 2, TURN))

    facts = dict(traces.of(2)[TURN].attributes or {})
    assert facts.pop("kvlease.reused_tokens") != 0
    assert facts.keys() == {
        "http.request.method",
        "http.route",
        "http.response.status_code",
        "kvlease.mode",
        "kvlease.tries",
        "kvlease.local_tokens",
        "kvlease.computed_tokens",
    }
    assert (facts["kvlease.mode"], facts["http.response.status_code"]) == ("prefill_decode", 200)
