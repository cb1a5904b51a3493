"""Methods are wrapped once, when a service is added to its server: gRPC's interceptors would be asked at every call."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import grpc

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Wrapping(ABC):
    """What is done around calls."""

    @abstractmethod
    def wrap(self, method: str, handler: Any) -> Handler:
        """Returns the wrapped handler of a method, given as "/SERVICE/METHOD"; the same one to leave it alone."""


class Registrar:
    """Stands for a server while services are added to it."""

    def __init__(self, server: grpc.aio.Server, wrappings: Sequence[Wrapping]) -> None:
        """Wraps every method, the first of the wrappings outermost."""
        self._server = server
        self._wrappings = wrappings

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Adds a service's methods."""
        wrapped = {name: self._wrap(f"/{service}/{name}", handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, wrapped),))

    def add_generic_rpc_handlers(self, handlers: Sequence["grpc.GenericRpcHandler"]) -> None:
        """Adds nothing: generated code adds the same methods both ways, and does not name them here."""

    def _wrap(self, method: str, handler: Handler) -> Handler:
        for wrapping in reversed(self._wrappings):
            handler = wrapping.wrap(method, handler)
        return handler
