"""One address and its channel: what every client is built on, for asyncio and for threads.

Lean on purpose: connectors and the router call through here on their hot path. A channel opens with the first call,
in the process that makes it, so that a client may be built before a fork.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Generic, TypeVar

import grpc
import grpc.aio

from kvlease.client import channel
from kvlease.client.errors import ClientClosed, KvleaseError, from_rpc

StubT = TypeVar("StubT")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class AsyncCaller(Generic[StubT]):
    """Calls one address from one event loop: the one of the first call."""

    def __init__(self, address: str, stub: Callable[[grpc.aio.Channel], StubT], *, tenant: str = "") -> None:
        """Keeps *address* (see `channel.target`) and the *tenant* to call for; opens nothing."""
        self.address = address
        self._target = channel.target(address)
        self._metadata = channel.metadata(tenant)
        self._make_stub = stub
        self._opened: StubT | None = None
        self._channel: grpc.aio.Channel | None = None
        self._closed = False

    async def close(self) -> None:
        """Closes the channel. Calls in flight end with `ClientClosed`, and so does every later one."""
        self._closed = True
        self._opened = None
        if self._channel is not None:
            await self._channel.close()

    @property
    def _stub(self) -> StubT:
        return self._opened or self._open()

    def _open(self) -> StubT:
        if self._closed:
            raise ClientClosed(f"the client of {self.address} is closed: make a new one")
        self._channel = grpc.aio.insecure_channel(self._target, channel.OPTIONS)
        self._opened = self._make_stub(self._channel)
        return self._opened

    async def _call(
        self,
        rpc: "grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT]",
        request: RequestT,
        timeout: float,
        tenant: str,
    ) -> ResponseT:
        """Awaits one answer; a cancelled task cancels the call."""
        sent = channel.metadata(tenant) if tenant else self._metadata
        try:
            return await rpc(request, timeout=timeout, metadata=sent)
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        except asyncio.CancelledError:
            self._raise_if_cut()
            raise

    async def _stream(
        self,
        rpc: "grpc.aio.UnaryStreamMultiCallable[RequestT, ResponseT]",
        request: RequestT,
        timeout: float,
        tenant: str,
    ) -> AsyncGenerator[ResponseT, None]:
        """Yields answers as they come; leaving the loop cancels the call."""
        sent = channel.metadata(tenant) if tenant else self._metadata
        call = rpc(request, timeout=timeout, metadata=sent)
        try:
            async for message in call:
                yield message
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        except asyncio.CancelledError:
            self._raise_if_cut()
            raise
        finally:
            call.cancel()

    def _raise_if_cut(self) -> None:
        """Tells a call that `close` cut from one whose own task was cancelled: gRPC cancels in both cases."""
        task = asyncio.current_task()
        if self._closed and not (task and task.cancelling()):
            raise ClientClosed(f"the client of {self.address} was closed during the call") from None


class Caller(Generic[StubT]):
    """Calls one address from any number of threads."""

    def __init__(self, address: str, stub: Callable[[grpc.Channel], StubT], *, tenant: str = "") -> None:
        """Keeps *address* (see `channel.target`) and the *tenant* to call for; opens nothing."""
        self.address = address
        self._target = channel.target(address)
        self._metadata = channel.metadata(tenant)
        self._make_stub = stub
        self._lock = threading.Lock()
        self._opened: StubT | None = None
        self._channel: grpc.Channel | None = None
        self._closed = False

    def close(self) -> None:
        """Closes the channel. Calls in flight end with `ClientClosed`, and so does every later one."""
        with self._lock:
            self._closed = True
            opened, self._channel = self._channel, None
        if opened is not None:
            opened.close()

    @property
    def stub(self) -> StubT:
        """The generated stub, over the channel that this opens."""
        with self._lock:
            if self._closed:
                raise ClientClosed(f"the client of {self.address} is closed: make a new one")
            if self._opened is None:
                self._channel = grpc.insecure_channel(self._target, channel.OPTIONS)
                self._opened = self._make_stub(self._channel)
            return self._opened

    def call(
        self, rpc: "grpc.UnaryUnaryMultiCallable[RequestT, ResponseT]", request: RequestT, *, timeout: float
    ) -> ResponseT:
        """Waits for one answer."""
        try:
            return rpc(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._typed(error) from error

    def stream(
        self, rpc: "grpc.UnaryStreamMultiCallable[RequestT, ResponseT]", request: RequestT, *, timeout: float
    ) -> Generator[ResponseT, None, None]:
        """Yields answers as they come; leaving the loop cancels the call."""
        call = rpc(request, timeout=timeout, metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            raise self._typed(error) from error
        finally:
            call.cancel()

    def _typed(self, error: grpc.RpcError) -> KvleaseError:
        if self._closed and error.code() is grpc.StatusCode.CANCELLED:
            return ClientClosed(f"the client of {self.address} was closed during the call")
        return from_rpc(error)
