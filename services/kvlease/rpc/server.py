"""The frame of a gRPC server: binds, describes itself, tells its health, and stops without cutting anybody off."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, cast

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from kvlease.rpc import address as addresses
from kvlease.rpc.calls import Calls
from kvlease.rpc.errors import Draining, Malformed, Status, Statuses
from kvlease.rpc.identity import CredentialsWrong, EngineDenied, RoleDenied, TenantDenied
from kvlease.rpc.limits import OverLimit
from kvlease.rpc.protection import OPEN, Protection
from kvlease.rpc.telemetry import Telemetry
from kvlease.rpc.tracing import OFF, CallSpans, Spans
from kvlease.rpc.wrapping import Registrar, Wrapping
from kvlease.v1 import errors_pb2

MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # a handle of 1 M tokens, many times over
OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # a second server on the same port is a mistake, not a helper
    # Watches idle for hours: ping them, and let clients ping, so that a dead peer is found and a live one kept.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)
SHARED: Statuses = {
    Malformed: Status(grpc.StatusCode.INVALID_ARGUMENT, errors_pb2.ERROR_REASON_MALFORMED),
    Draining: Status(grpc.StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_DRAINING),
    CredentialsWrong: Status(grpc.StatusCode.UNAUTHENTICATED, errors_pb2.ERROR_REASON_CREDENTIALS_WRONG),
    RoleDenied: Status(grpc.StatusCode.PERMISSION_DENIED, errors_pb2.ERROR_REASON_ROLE_DENIED),
    EngineDenied: Status(grpc.StatusCode.PERMISSION_DENIED, errors_pb2.ERROR_REASON_ROLE_DENIED),
    TenantDenied: Status(grpc.StatusCode.PERMISSION_DENIED, errors_pb2.ERROR_REASON_ROLE_DENIED),
    OverLimit: Status(grpc.StatusCode.RESOURCE_EXHAUSTED, errors_pb2.ERROR_REASON_TENANT_LIMIT),
}

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Service:
    """A servicer that a server offers."""

    name: str
    """Full name, such as "kvlease.v1.RegistryService"."""
    register: Callable[[grpc.aio.Server], None]
    """Adds the servicer to the server, as generated code does: by `add_registered_method_handlers`."""
    statuses: Statuses
    """The status of each of its errors."""
    drain: Callable[[], None] = lambda: None
    """Ends what would wait beyond a stop: streams, long waits."""


class Server:
    """Serves from `async with` on. Says NOT_SERVING before it stops."""

    def __init__(
        self,
        address: str,
        services: Sequence[Service],
        protection: Protection = OPEN,
        telemetry: Telemetry | None = None,
        spans: Spans = OFF,
    ) -> None:
        """Checks the address ("host:port", "unix:path"; port 0: any free one) and reads certificates and keys.

        Raises ValueError, and OSError for files that cannot be read.
        """
        addresses.check(address)
        self._bound = address
        self._credentials, self._guard = protection.credentials(), protection.guard()
        self._reflection = protection.reflection
        self._services = services
        self._outer: list[Wrapping] = [telemetry.calls] if telemetry else []
        if spans is not OFF:
            self._outer.append(CallSpans(spans))
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        """Where it listens; with the real port once it serves."""
        return self._bound

    async def __aenter__(self) -> Self:
        """Binds and serves. Raises OSError when the address is taken."""
        server = grpc.aio.server(options=OPTIONS)
        for service in self._services:
            calls = Calls({**SHARED, **service.statuses}, self._guard)
            service.register(cast("grpc.aio.Server", Registrar(server, [*self._outer, calls])))
            await self._health.set(service.name, health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if self._reflection:
            names = [*(service.name for service in self._services), health.SERVICE_NAME, reflection.SERVICE_NAME]
            reflection.enable_server_reflection(names, server)
        self._bound = addresses.with_port(self._bound, self._bind(server))
        await server.start()
        self._server = server
        return self

    def _bind(self, server: grpc.aio.Server) -> int:
        try:
            if self._credentials is None:
                return server.add_insecure_port(self._bound)
            return server.add_secure_port(self._bound, self._credentials)
        except RuntimeError:  # gRPC does not say which of these it is
            raise OSError(f"cannot listen on {self._bound}: in use, not allowed, or not this machine's") from None

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.drain(0.0)

    async def drain(self, grace: float) -> None:
        """Says NOT_SERVING, ends what waits, takes no new call, and gives running ones `grace` seconds."""
        if self._server is None:
            return
        server, self._server = self._server, None
        await self._health.enter_graceful_shutdown()
        for service in self._services:
            service.drain()
        await server.stop(grace)

    async def serve_until_signal(self, grace: float, ready: Callable[[], None] = lambda: None) -> None:
        """Serves until SIGTERM or SIGINT, then drains. Calls *ready* from when on a signal is heard."""
        with _stop_signals() as signals:
            ready()
            received = await signals.get()
        log.info("server stopping", signal=received.name, grace=grace)
        await self.drain(grace)


async def stop_signal() -> signal.Signals:
    """Waits for SIGTERM or SIGINT. A second one does what it does by default."""
    with _stop_signals() as received:
        return await received.get()


@contextmanager
def _stop_signals() -> Iterator[asyncio.Queue[signal.Signals]]:
    loop = asyncio.get_running_loop()
    received: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received.put_nowait, number)
    try:
        yield received
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
