"""Metrics of a gRPC server, and where Prometheus fetches them. No label takes what a caller chooses."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server

from kvlease.client.convert import seconds
from kvlease.rpc import address as addresses
from kvlease.rpc.wrapping import Context, Handler, Wrapping
from kvlease.v1 import lease_pb2

_CALL_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)
_WAIT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.25, 1)
_MOST_REASONS = 32
_LONGEST_REASON = 64


class CallMetrics(Wrapping):
    """Counts and times the calls of kvlease's services. Streams count when they end, and are not timed."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.perf_counter) -> None:
        self._calls = Counter("kvlease_rpc", "Calls, by method and status.", ["method", "code"], registry=registry)
        self._seconds = Histogram(
            "kvlease_rpc_seconds",
            "From a call's arrival to its answer, waiting included where the call asks for it.",
            ["method"],
            buckets=_CALL_BUCKETS,
            registry=registry,
        )
        self._clock = clock

    def wrap(self, method: str, handler: Any) -> Handler:
        """Wraps a method."""
        method = method.rpartition("/")[2]
        if handler.response_streaming:
            streams = handler.unary_stream

            async def stream(request: Any, context: Context) -> None:
                with self._counted(method, context):
                    await streams(request, context)

            return grpc.unary_stream_rpc_method_handler(
                stream, handler.request_deserializer, handler.response_serializer
            )
        answers, observe = handler.unary_unary, self._seconds.labels(method).observe

        async def unary(request: Any, context: Context) -> Any:
            begun = self._clock()
            with self._counted(method, context):
                answer = await answers(request, context)
            observe(self._clock() - begun)
            return answer

        return grpc.unary_unary_rpc_method_handler(unary, handler.request_deserializer, handler.response_serializer)

    @contextmanager
    def _counted(self, method: str, context: Context) -> Iterator[None]:
        code = grpc.StatusCode.OK.name
        try:
            yield
        except grpc.aio.AbortError:
            code = _CODES.get(context.code(), grpc.StatusCode.UNKNOWN.name)
            raise
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED.name
            raise
        finally:
            self._calls.labels(method, code).inc()


_CODES: dict[Any, str] = {number: code.name for code in grpc.StatusCode for number in (code, code.value[0])}


NO_MISSES = ("", "FIRST_TURN")
"""What reports say of turns that could not have reused more."""


class PrefillMetrics:
    """What prefill reported of its prompts."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        """Names begin with *prefix*."""
        tokens = Counter(
            f"{prefix}_prompt_tokens",
            "Prompt tokens, by how prefill came by their KV.",
            ["source"],
            registry=registry,
        )
        self.sources = {source: tokens.labels(source) for source in ("reused", "local", "computed")}
        self.misses = Counter(
            f"{prefix}_misses",
            "Turns of which prefill reused less than it could have.",
            ["reason"],
            registry=registry,
        )
        self._waits = Histogram(
            f"{prefix}_added_wait_seconds",
            "What prefill waited for the control plane.",
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )
        self._reasons: set[str] = set()

    def prefilled(self, report: lease_pb2.PrefillReport) -> None:
        """Counts a prompt."""
        self.sources["reused"].inc(report.reused_tokens)
        self.sources["local"].inc(report.local_tokens)
        self.sources["computed"].inc(report.computed_tokens)
        self._waits.observe(seconds(report.added_wait))
        if report.miss_reason not in NO_MISSES:
            self.misses.labels(self._bounded(report.miss_reason)).inc()

    def _bounded(self, reason: str) -> str:
        """Returns the reason, cut; "other" once there were too many different ones."""
        reason = reason[:_LONGEST_REASON]
        if reason not in self._reasons and len(self._reasons) >= _MOST_REASONS:
            return "other"
        self._reasons.add(reason)
        return reason


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The metrics of one process."""

    address: str
    """Where they are served, with the real port."""
    registry: CollectorRegistry
    calls: CallMetrics


def check(address: str, *, insecure: bool) -> None:
    """Raises ValueError for what is no address, or can be read by others although nobody allowed it."""
    if not address:
        return
    addresses.check(address)
    if not (insecure or addresses.is_local(address)):
        raise ValueError(f"metrics at {address} can be read by others: give --insecure to allow it")


@contextmanager
def served(address: str) -> Iterator[Telemetry | None]:
    """Serves metrics at `http://ADDRESS/metrics` until left, on a thread of its own; none where no address is given.

    Raises OSError when it is taken.
    """
    if not address:
        yield None
        return
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    server, thread = start_http_server(int(port), host.strip("[]"), registry)
    try:
        yield Telemetry(addresses.with_port(address, server.server_port), registry, CallMetrics(registry))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
