"""RPCs between pretended processes: the real clients call the real servicers, over the pretended network.

Stands for gRPC, and for `kvlease.rpc.calls` in the server: a deadline on each side, an answer that may be lost,
errors as a status with its details, and a refused connection where nobody is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.message import Message
from grpc_status import rpc_status

from kvlease.client.caller import AsyncCaller
from kvlease.rpc import Service
from kvlease.rpc.errors import status_of
from kvlease.rpc.server import SHARED
from tests.protocol.network import Network
from tests.protocol.timeline import Process

Metadata = Sequence[tuple[str, str | bytes]]
ClientT = TypeVar("ClientT", bound="AsyncCaller[Any]")


class Failed(grpc.RpcError):
    """What a client sees of a call that failed."""

    def __init__(self, code: grpc.StatusCode, details: str, trailing: Metadata = (), cause: object = None) -> None:
        super().__init__(details)
        self.cause = cause
        self._code, self._details, self._trailing = code, details, trailing

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Metadata:  # type: ignore[override]
        return self._trailing


@dataclass(eq=False)
class Call:
    """One call on its way. Requests and answers are copied: processes share no memory."""

    caller: Process
    method: str
    request: Message
    metadata: Metadata
    timeout: float
    answer: "asyncio.Future[Any]"

    def settle(self, outcome: Message | Failed) -> None:
        """Brings the caller its answer, if it still waits."""
        if self.answer.done():
            return
        if isinstance(outcome, Failed):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)


class Server:
    """Where a process is called. `heard` is told of each call that was carried out, and how it ended."""

    def __init__(self, process: Process, network: Network, service: Service) -> None:
        self.process = process
        self.heard: Callable[[Call, Message | Failed], None] = lambda _call, _outcome: None
        self._network = network
        self._statuses = {**SHARED, **service.statuses}
        self._methods: dict[str, Callable[[Message, Any], Awaitable[Message]]] = {}
        self._running: dict[asyncio.Task[None], Call] = {}
        service.register(self)  # type: ignore[arg-type]

    def add_generic_rpc_handlers(self, _: object) -> None:
        """The same as below, without names."""

    def add_registered_method_handlers(self, _: str, handlers: "dict[str, grpc.RpcMethodHandler[Any, Any]]") -> None:
        """Takes the methods, as gRPC's server does."""
        self._methods |= {name.rpartition("/")[2]: handler.unary_unary for name, handler in handlers.items()}  # type: ignore[misc]

    def take(self, call: Call) -> None:
        """Begins to carry out a call, or begins again where the network brought it twice."""
        task = self.process.loop.create_task(self._serve(call))
        self._running[task] = call
        task.add_done_callback(self._ended)
        self.process.loop.call_later(call.timeout, task.cancel)

    def cancel(self, call: Call) -> None:
        """The caller does not wait any more."""
        for task in [task for task, running in self._running.items() if running is call]:
            task.cancel()

    def kill(self) -> None:
        """Ends the process; its connections are reset."""
        for call in self._running.values():
            self._answer(call, unreachable())
        self.process.kill()

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not task.cancelled() and (error := task.exception()):
            self.process.loop.errors.append(error)

    async def _serve(self, call: Call) -> None:
        request = copy(call.request)
        outcome: Message | Failed
        try:
            outcome = copy(await self._methods[call.method](request, _Context(call)))
        except Exception as error:  # noqa: BLE001 - as in kvlease.rpc.calls
            outcome = self._failure(error)
        self.heard(call, outcome)
        self._answer(call, outcome)

    def _failure(self, error: Exception) -> Failed:
        wire = rpc_status.to_status(status_of(error, self._statuses))
        return Failed(wire.code, wire.details, wire.trailing_metadata, error)

    def _answer(self, call: Call, outcome: Message | Failed) -> None:
        arrive = partial(call.caller.deliver, partial(call.settle, outcome))
        self._network.post(self.process, call.caller.name, arrive)


@dataclass
class Hosts:
    """Who listens where."""

    network: Network
    servers: dict[str, Server] = field(default_factory=dict)

    def client(self, kind: Callable[[str], ClientT], process: Process, address: str) -> ClientT:
        """Returns a client of that kind for a process, whose calls go this way and not over gRPC."""
        made = kind(f"{address}:1")
        made._opened = _Stub(self, process, address)
        return made

    def call(self, call: Call, address: str) -> None:
        """A call arrives where it was sent to."""
        server = self.servers.get(address)
        if server is not None and server.process.alive:
            server.process.deliver(partial(server.take, call))
        else:
            call.caller.deliver(partial(call.settle, unreachable()))

    def cancel(self, call: Call, address: str) -> None:
        """Word arrives that the caller waits no more."""
        server = self.servers.get(address)
        if server is not None:
            server.process.deliver(partial(server.cancel, call))


class _Stub:
    """What the client libraries call."""

    def __init__(self, hosts: Hosts, process: Process, address: str) -> None:
        self._hosts, self._process, self._address = hosts, process, address

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Message]]:
        return partial(self._call, method)

    async def _call(self, method: str, request: Message, *, timeout: float, metadata: Metadata | None) -> Message:  # noqa: ASYNC109 - as the clients take it
        loop = self._process.loop
        call = Call(self._process, method, copy(request), metadata or (), timeout, loop.create_future())
        deadline = loop.call_later(timeout, lambda: call.settle(too_late()))
        self._hosts.network.post(self._process, self._address, partial(self._hosts.call, call, self._address))
        try:
            return await call.answer  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._hosts.network.post(self._process, self._address, partial(self._hosts.cancel, call, self._address))
            raise
        finally:
            deadline.cancel()


@dataclass(frozen=True)
class _Context:
    """As much of gRPC's context as the servicers look at."""

    call: Call

    def invocation_metadata(self) -> Metadata:
        return self.call.metadata

    def time_remaining(self) -> float:
        return self.call.timeout

    async def abort(self, *_: object) -> NoReturn:
        raise NotImplementedError("errors are mapped around the call")


def unreachable() -> Failed:
    """Nobody listens, or the connection was reset."""
    return Failed(grpc.StatusCode.UNAVAILABLE, "connection refused or reset")


def too_late() -> Failed:
    """No answer came in time."""
    return Failed(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer in time")


def copy(message: Message) -> Message:
    """Copies a message, as sending it would."""
    made = type(message)()
    made.CopyFrom(message)
    return made
