"""Real servers on ports of their own, and what a caller sees of an error."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc
from grpc_status import rpc_status

from kvlease.rpc import OPEN, Protection, Server, Service, Statuses
from kvlease.rpc.telemetry import Telemetry

DETAILS = (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo)

Methods: TypeAlias = Mapping[str, tuple[Callable[..., Any], type[Message]]]
"""Handlers and the classes of their requests, by method name."""


def a_service(
    name: str,
    methods: Methods,
    statuses: Statuses = MappingProxyType({}),
    drain: Callable[[], None] = lambda: None,
) -> Service:
    """Makes a service of some unary methods."""
    handlers: dict[str, Any] = {
        method: grpc.unary_unary_rpc_method_handler(call, request.FromString, lambda answer: answer.SerializeToString())
        for method, (call, request) in methods.items()
    }

    def register(server: grpc.aio.Server) -> None:
        server.add_registered_method_handlers(name, handlers)

    return Service(name, register, statuses, drain)


@asynccontextmanager
async def serving(
    *services: Service, protection: Protection = OPEN, telemetry: Telemetry | None = None
) -> AsyncIterator[tuple[Server, grpc.aio.Channel]]:
    """Serves on a free port; gives the server and a channel to it, in plain text."""
    async with (
        Server("127.0.0.1:0", services, protection, telemetry) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        yield server, channel


def health(channel: grpc.aio.Channel) -> Any:
    """Returns a stub of the health service; its types are not published."""
    return health_pb2_grpc.HealthStub(channel)


def reflection(channel: grpc.aio.Channel) -> Any:
    """Returns a stub of the reflection service, likewise."""
    return reflection_pb2_grpc.ServerReflectionStub(channel)  # type: ignore[arg-type]


def details_of(error: grpc.aio.AioRpcError) -> dict[str, Message]:
    """Returns the details of an error's google.rpc.Status by type name; fails where the two contradict each other."""
    status = rpc_status.from_call(error)  # type: ignore[arg-type]
    found: dict[str, Message] = {}
    for packed in status.details if status else ():
        for kind in DETAILS:
            if packed.Is(kind.DESCRIPTOR):
                found[kind.DESCRIPTOR.name] = detail = kind()
                packed.Unpack(detail)
    return found


def reason_of(error: grpc.aio.AioRpcError) -> str:
    """Returns ErrorInfo's reason; "" for an error without one."""
    info = details_of(error).get("ErrorInfo")
    return info.reason if isinstance(info, error_details_pb2.ErrorInfo) else ""
