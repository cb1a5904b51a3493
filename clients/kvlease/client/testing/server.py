"""What both fakes are: a real gRPC server that records its calls, and that fails or freezes when told to."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn, Self

import grpc
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from kvlease.client.channel import MAX_MESSAGE_BYTES, TENANT_KEY
from kvlease.client.errors import DETAILS_KEY, DOMAIN, EXCEPTIONS, KvleaseError
from kvlease.client.requests import duration

DEFAULT_TENANT = "default"
WORKERS = 16
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),
)
_STATUSES = {kind: key for key, kind in EXCEPTIONS.items()}


@dataclass(frozen=True, slots=True)
class Call:
    """One call that came in. *timeout*: the seconds that its caller still gave it then; None: no deadline."""

    method: str
    request: Any
    tenant: str
    timeout: float | None


Unary = Callable[[Any, str], Message]
Streaming = Callable[[Any, str, grpc.ServicerContext], Iterator[Message]]


class FakeServer:
    """Serves one gRPC service on 127.0.0.1 while its `with` block lasts.

    Handlers take the request and the caller's tenant. Unary ones run one at a time. What they raise of
    `kvlease.client.errors` is sent as the real servers send it.
    """

    def __init__(
        self,
        service: str,
        messages: ModuleType,
        unary: Mapping[str, Unary],
        streaming: Mapping[str, Streaming] | None = None,
    ) -> None:
        """Keeps the handlers by method name; their requests are found in *messages*. Starts nothing."""
        self.calls: list[Call] = []
        self.host = "127.0.0.1"
        self.port = 0
        self._lock = threading.RLock()
        self._came = threading.Condition()
        self._going = threading.Event()
        self._going.set()
        self._faults: list[KvleaseError] = []
        self._server: grpc.Server | None = None
        handlers = {name: self._unary(name, behave, messages) for name, behave in unary.items()}
        handlers |= {name: self._stream(name, behave, messages) for name, behave in (streaming or {}).items()}
        self._handler = grpc.method_handlers_generic_handler(service, handlers)

    @property
    def address(self) -> str:
        """Where it listens, or listened last: `host:port`."""
        return f"{self.host}:{self.port}"

    def start(self, port: int = 0, *, host: str = "127.0.0.1") -> None:
        """Listens on *port*; 0: on any free one."""
        self.host = host
        self._server = grpc.server(ThreadPoolExecutor(WORKERS), options=OPTIONS)
        self._server.add_generic_rpc_handlers((self._handler,))
        self.port = self._server.add_insecure_port(f"{host}:{port}")
        self._server.start()

    def stop(self) -> None:
        """Stops at once; calls in flight are cut. What it knows stays, for another start."""
        self.thaw()
        if self._server is not None:
            self._server.stop(grace=None).wait()
            self._server = None

    def __enter__(self) -> Self:
        """Starts."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops."""
        self.stop()

    def fail_next(self, *errors: KvleaseError) -> None:
        """Answers the next calls with *errors*, one each."""
        self._faults.extend(errors)

    def freeze(self) -> None:
        """Answers nothing any more, though connections stay; until `thaw`."""
        self._going.clear()

    def thaw(self) -> None:
        """Goes on after `freeze`, with the calls that came meanwhile."""
        self._going.set()

    def wait_for(self, method: str, count: int, timeout: float = 10.0) -> bool:
        """Waits until *method* has been called *count* times in all; False if it was not within *timeout* seconds."""
        with self._came:
            return self._came.wait_for(lambda: sum(c.method == method for c in self.calls) >= count, timeout)

    def _enter(self, method: str, request: Any, context: grpc.ServicerContext) -> str:
        """Records a call, and fails it if it is to fail; gives its tenant."""
        tenant = str(dict(context.invocation_metadata()).get(TENANT_KEY, DEFAULT_TENANT))
        with self._came:
            self.calls.append(Call(method, request, tenant, context.time_remaining()))
            fault = self._faults.pop(0) if self._faults else None
            self._came.notify_all()
        self._going.wait()
        if fault is not None:
            raise fault
        return tenant

    def _unary(self, method: str, behave: Unary, messages: ModuleType) -> "grpc.RpcMethodHandler[Any, Any]":
        def serve(request: Any, context: grpc.ServicerContext) -> Message:
            try:
                tenant = self._enter(method, request, context)
                with self._lock:
                    return behave(request, tenant)
            except KvleaseError as error:
                refuse(context, error)

        return grpc.unary_unary_rpc_method_handler(
            serve, getattr(messages, f"{method}Request").FromString, lambda answer: answer.SerializeToString()
        )

    def _stream(self, method: str, behave: Streaming, messages: ModuleType) -> "grpc.RpcMethodHandler[Any, Any]":
        def serve(request: Any, context: grpc.ServicerContext) -> Iterator[Message]:
            try:
                yield from behave(request, self._enter(method, request, context), context)
            except KvleaseError as error:
                refuse(context, error)

        return grpc.unary_stream_rpc_method_handler(
            serve, getattr(messages, f"{method}Request").FromString, lambda answer: answer.SerializeToString()
        )


def refuse(context: grpc.ServicerContext, error: KvleaseError) -> NoReturn:
    """Ends a call with *error* as the real servers send it."""
    code, reason = _STATUSES[type(error)]
    details: list[Message] = [ErrorInfo(reason=reason, domain=DOMAIN, metadata=error.metadata)] if reason else []
    if error.retry_after is not None:
        details.append(RetryInfo(retry_delay=duration(error.retry_after)))
    if error.violations:
        fields = [BadRequest.FieldViolation(field=f, description=d) for f, d in error.violations.items()]
        details.append(BadRequest(field_violations=fields))
    status = Status(code=code.value[0], message=str(error))
    for detail in details:
        packed = AnyProto()
        packed.Pack(detail)
        status.details.append(packed)
    context.set_trailing_metadata(((DETAILS_KEY, status.SerializeToString()),))
    context.abort(code, str(error))
