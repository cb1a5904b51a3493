"""An engine without a model: it says what it is told to say, or fails, and remembers what it was asked."""

import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any, Self

from kvlease.client.completions import KV_PARAMS
from kvlease.client.testing.reply import Reply

POLL = 0.05  # seconds within which it notices that it is stopped


class FakeEngine:
    """Serves /v1/chat/completions on 127.0.0.1 while its `with` block lasts, streamed and whole.

    Attributes:
        words: What it says where it was told nothing else, each in a chunk of its own.
        requests: The bodies of all requests, in the order of their coming; prefill's share of a turn is one too.
    """

    def __init__(self, words: Iterable[str] = ("Hello", " there")) -> None:
        """Says *words*. Starts nothing."""
        self.words = list(words)
        self.requests: list[dict[str, Any]] = []
        self.port = 0
        self._replies: deque[Reply] = deque()
        self._faults: deque[int] = deque()
        self._going = threading.Event()
        self._going.set()
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        """Base URL, to be given to `FakeRegistry.add_engine`."""
        if not self.port:
            raise RuntimeError("the fake engine is not started: use it in a `with` block")
        return f"http://127.0.0.1:{self.port}"

    def say_next(self, *replies: Reply) -> None:
        """Answers the next turns with *replies*, one each."""
        self._replies.extend(replies)

    def fail_next(self, *statuses: int) -> None:
        """Answers the next requests with HTTP errors of these statuses, one each.

        The client tries a turn again that failed with 500 or more, three times in all.
        """
        self._faults.extend(statuses)

    def freeze(self) -> None:
        """Answers nothing any more, though connections stay; until `thaw`."""
        self._going.clear()

    def thaw(self) -> None:
        """Goes on after `freeze`, with the requests that came meanwhile."""
        self._going.set()

    def start(self, port: int = 0) -> None:
        """Listens on *port*; 0: on any free one."""
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                engine._answer(self)

            def log_message(self, *_: object) -> None:
                """Says nothing on standard error."""

        self._server = _Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(POLL,), name="kvlease-fake-engine", daemon=True).start()

    def stop(self) -> None:
        """Stops at once; answers under way break off. `start(engine.port)` brings it back."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.cut()
            self.thaw()
            server.server_close()

    def __enter__(self) -> Self:
        """Starts."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops."""
        self.stop()

    def _answer(self, http: BaseHTTPRequestHandler) -> None:
        body = json.loads(http.rfile.read(int(http.headers["content-length"])))
        self.requests.append(body)
        status = self._faults.popleft() if self._faults else HTTPStatus.OK
        reply = self._reply(body) if status == HTTPStatus.OK else None
        with suppress(OSError):  # whoever asked has left, or the engine was stopped
            self._send(http, status, reply, streamed=bool(body.get("stream")))

    def _reply(self, body: dict[str, Any]) -> Reply:
        """Chooses what to say; what prefill says is nobody's answer."""
        of_prefill = KV_PARAMS in body and not body.get("stream")
        return self._replies.popleft() if self._replies and not of_prefill else Reply(words=self.words)

    def _send(self, http: BaseHTTPRequestHandler, status: int, reply: Reply | None, *, streamed: bool) -> None:
        self._going.wait()
        http.send_response(status)
        http.send_header("content-type", "text/event-stream" if streamed and reply else "application/json")
        http.end_headers()
        for part in _refusal(status) if reply is None else reply.streamed() if streamed else reply.whole():
            self._going.wait()
            http.wfile.write(part)


def _refusal(status: int) -> Iterator[bytes]:
    error = {"message": f"told to fail with {status}", "type": "FakeError", "code": status}
    yield json.dumps({"error": error}).encode()


class _Server(ThreadingHTTPServer):
    """Knows its connections, so that it can cut them."""

    def __init__(self, *args: Any) -> None:
        self._connections: set[socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begins to serve a connection."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Ends one."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        """Ends all of them."""
        for connection in list(self._connections):
            super().shutdown_request(connection)
