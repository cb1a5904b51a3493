"""What every interceptor here does alike: wrap a method once, however often it is called."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
MaybeHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Wrapping(grpc.aio.ServerInterceptor, ABC):
    """Wraps the methods that it cares for."""

    def __init__(self) -> None:
        self._wrapped: dict[str, Handler] = {}

    @abstractmethod
    def wrap(self, method: str, handler: Any) -> MaybeHandler:
        """Returns the wrapped handler of a method, given as "/SERVICE/METHOD"; None to leave it alone."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[MaybeHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> MaybeHandler:
        """Answers gRPC's question who handles a call."""
        method = handler_call_details.method
        if method in self._wrapped:
            return self._wrapped[method]
        handler = await continuation(handler_call_details)
        wrapped = handler and self.wrap(method, handler)
        return self._wrapped.setdefault(method, wrapped) if wrapped else handler
