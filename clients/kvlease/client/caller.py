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

from kvlease.client import channel, trace
from kvlease.client.errors import ClientClosed, KvleaseError, Unavailable, from_rpc
from kvlease.client.security import PLAIN, Metadata, Security, Shown, Stamp

StubT = TypeVar("StubT")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


_TURNED_DOWN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED)


class _Shower:
    """What a client shows of itself. Once a server has turned it down it shows newer files, if there are any."""

    def __init__(self, address: str, server: str, security: Security) -> None:
        self.address = address
        self._server = server
        self._answered = False
        self._security = security
        self._stamp: Stamp = ()
        self._credential: Metadata = ()

    def _show(self) -> Shown:
        """Reads what is to be shown."""
        try:
            shown = self._security.read()
        except (OSError, ValueError) as error:
            raise Unavailable(f"cannot show {self.address} who is calling: {error}") from error
        self._stamp, self._credential = shown.stamp, shown.metadata
        return shown

    def _stale(self, error: grpc.RpcError) -> bool:
        """Tells whether a new channel may fare better."""
        return self._security is not PLAIN and error.code() in _TURNED_DOWN and self._security.stamp() != self._stamp

    def _told(self, error: grpc.RpcError) -> KvleaseError:
        told = from_rpc(error, self._server, self.address)
        if isinstance(told, Unavailable):
            told.never_answered = not self._answered and not told.reason
        return told


class AsyncCaller(_Shower, Generic[StubT]):
    """Calls one address from one event loop: the one of the first call."""

    def __init__(
        self,
        address: str,
        stub: Callable[[grpc.aio.Channel], StubT],
        *,
        server: str,
        tenant: str = "",
        security: Security = PLAIN,
    ) -> None:
        """Keeps *address* (see `channel.target`), what should be there, and whom to call for; opens nothing."""
        channel.target(address)
        super().__init__(address, server, security)
        self._metadata = channel.metadata(tenant)
        self._make_stub = stub
        self._opened: StubT | None = None
        self._channels: list[grpc.aio.Channel] = []  # the last one is in use; those before it lie idle
        self._closed = False

    async def close(self) -> None:
        """Closes the channel. Calls in flight end with `ClientClosed`, and so does every later one."""
        self._closed = True
        self._opened = None
        for opened in self._channels:
            await opened.close()

    @property
    def _stub(self) -> StubT:
        return self._opened or self._open()

    def _open(self) -> StubT:
        if self._closed:
            raise ClientClosed(f"the client of {self.address} is closed: make a new one")
        self._channels.append(channel.open_aio(self.address, self._show(), self._security))
        self._opened = self._make_stub(self._channels[-1])
        return self._opened

    async def _call(
        self,
        rpc: "grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT]",
        request: RequestT,
        timeout: float,
        tenant: str,
    ) -> ResponseT:
        """Awaits one answer; a cancelled task cancels the call."""
        sent = (channel.metadata(tenant) if tenant else self._metadata) + self._credential + trace.current()
        try:
            answer = await rpc(request, timeout=timeout, metadata=sent)
        except grpc.RpcError as error:
            raise self._typed(error) from error
        except asyncio.CancelledError:
            self._raise_if_cut()
            raise
        self._answered = True
        return answer

    async def _stream(
        self,
        rpc: "grpc.aio.UnaryStreamMultiCallable[RequestT, ResponseT]",
        request: RequestT,
        timeout: float,
        tenant: str,
    ) -> AsyncGenerator[ResponseT, None]:
        """Yields answers as they come; leaving the loop cancels the call."""
        sent = (channel.metadata(tenant) if tenant else self._metadata) + self._credential + trace.current()
        call = rpc(request, timeout=timeout, metadata=sent)
        try:
            async for message in call:
                yield message
        except grpc.RpcError as error:
            raise self._typed(error) from error
        except asyncio.CancelledError:
            self._raise_if_cut()
            raise
        finally:
            call.cancel()

    def _typed(self, error: grpc.RpcError) -> KvleaseError:
        if self._stale(error):
            self._opened = None
        return self._told(error)

    def _raise_if_cut(self) -> None:
        """Tells a call that `close` cut from one whose own task was cancelled: gRPC cancels in both cases."""
        task = asyncio.current_task()
        if self._closed and not (task and task.cancelling()):
            raise ClientClosed(f"the client of {self.address} was closed during the call") from None


class Caller(_Shower, Generic[StubT]):
    """Calls one address from any number of threads."""

    def __init__(
        self,
        address: str,
        stub: Callable[[grpc.Channel], StubT],
        *,
        server: str,
        tenant: str = "",
        security: Security = PLAIN,
    ) -> None:
        """Keeps *address* (see `channel.target`), what should be there, and whom to call for; opens nothing."""
        channel.target(address)
        super().__init__(address, server, security)
        self._metadata = channel.metadata(tenant)
        self._make_stub = stub
        self._lock = threading.Lock()
        self._opened: StubT | None = None
        self._channels: list[grpc.Channel] = []  # as above
        self._closed = False

    def close(self) -> None:
        """Closes the channel. Calls in flight end with `ClientClosed`, and so does every later one."""
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, []
        for opened in channels:
            opened.close()

    @property
    def stub(self) -> StubT:
        """The generated stub, over the channel that this opens."""
        with self._lock:
            if self._closed:
                raise ClientClosed(f"the client of {self.address} is closed: make a new one")
            if self._opened is None:
                self._channels.append(channel.open_sync(self.address, self._show(), self._security))
                self._opened = self._make_stub(self._channels[-1])
            return self._opened

    def call(
        self, rpc: "grpc.UnaryUnaryMultiCallable[RequestT, ResponseT]", request: RequestT, *, timeout: float
    ) -> ResponseT:
        """Waits for one answer."""
        try:
            answer = rpc(request, timeout=timeout, metadata=self._metadata + self._credential + trace.current())
        except grpc.RpcError as error:
            raise self._typed(error) from error
        except ValueError as error:
            raise self._refused(error) from error
        self._answered = True
        return answer

    def stream(
        self, rpc: "grpc.UnaryStreamMultiCallable[RequestT, ResponseT]", request: RequestT, *, timeout: float
    ) -> Generator[ResponseT, None, None]:
        """Yields answers as they come; leaving the loop cancels the call."""
        try:
            call = rpc(request, timeout=timeout, metadata=self._metadata + self._credential + trace.current())
        except ValueError as error:
            raise self._refused(error) from error
        try:
            yield from call
        except grpc.RpcError as error:
            raise self._typed(error) from error
        finally:
            call.cancel()

    def _refused(self, error: ValueError) -> Exception:
        """Tells what gRPC says of a channel that `close` has closed since the call was begun."""
        return ClientClosed(f"the client of {self.address} was closed during the call") if self._closed else error

    def _typed(self, error: grpc.RpcError) -> KvleaseError:
        if self._closed and error.code() is grpc.StatusCode.CANCELLED:
            return ClientClosed(f"the client of {self.address} was closed during the call")
        if self._stale(error):
            with self._lock:
                self._opened = None
        return self._told(error)
