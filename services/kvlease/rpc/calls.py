"""What is done around every call: it is named in the logs, the guard is asked, errors become statuses."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from typing import Any

import grpc
import structlog
from google.protobuf.message import DecodeError
from grpc_status import rpc_status

from kvlease.rpc.errors import INTERNAL, Malformed, Statuses, Violation, status_of
from kvlease.rpc.guard import Guard
from kvlease.rpc.identity import CredentialsWrong, EngineDenied, RoleDenied, TenantDenied
from kvlease.rpc.logging import name_call
from kvlease.rpc.wrapping import Context, Handler, Wrapping

log = structlog.get_logger()


class Calls(Wrapping):
    """Wraps all methods of a service."""

    def __init__(self, statuses: Statuses, guard: Guard | None) -> None:
        """Takes the status of each of its errors; without a guard whoever calls is let in."""
        self._statuses = statuses
        self._guard = guard

    def wrap(self, method: str, handler: Any) -> Handler:
        """Wraps a method."""
        return _Method(method, handler, self._statuses, self._guard).handler()


class _Method:
    """One method. Decodes requests itself, so that bytes that are no message are refused like any other bad request."""

    def __init__(self, name: str, handler: Handler, statuses: Statuses, guard: Guard | None) -> None:
        self._name = name
        self._guard = guard
        self._statuses = statuses
        self._streams = handler.response_streaming
        self._call: Any = handler.unary_stream if handler.response_streaming else handler.unary_unary
        self._decode: Any = handler.request_deserializer
        self._encode = handler.response_serializer

    def handler(self) -> Handler:
        if self._streams:
            return grpc.unary_stream_rpc_method_handler(self._stream, None, self._encode)
        return grpc.unary_unary_rpc_method_handler(self._unary, None, self._encode)

    async def _unary(self, data: bytes, context: Context) -> Any:
        name_call(self._name, context)
        try:
            if self._guard is None:
                return await self._call(self._request(data), context)
            with self._guard.admit(self._name, context, len(data)):
                return await self._call(self._request(data), context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the last stop before gRPC, which would show it to the caller
            await self._abort(error, context)

    async def _stream(self, data: bytes, context: Context) -> None:
        name_call(self._name, context)
        try:
            with self._guard.admit(self._name, context, len(data)) if self._guard else nullcontext():
                answers: AsyncGenerator[Any, None] = self._call(self._request(data), context)
                async with aclosing(answers):
                    async for answer in answers:
                        await context.write(answer)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            await self._abort(error, context)

    def _request(self, data: bytes) -> Any:
        try:
            return self._decode(data)
        except DecodeError as error:
            raise Malformed(Violation("request", "is no message of this method")) from error

    async def _abort(self, error: Exception, context: Context) -> None:
        status = status_of(error, self._statuses)
        if status.code == INTERNAL.code.value[0]:
            log.error("call failed", exc_info=error)
        elif isinstance(error, CredentialsWrong | RoleDenied | EngineDenied | TenantDenied):
            log.warning("call denied", error=str(error), peer=context.peer())
        wire = rpc_status.to_status(status)
        await context.abort(wire.code, wire.details, wire.trailing_metadata)
