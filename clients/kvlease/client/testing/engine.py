"""An engine without a model: it says the same to everybody, and remembers what it was asked."""

import json
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_CHUNK = "chat.completion.chunk"


class FakeEngine:
    """Serves /v1/chat/completions on 127.0.0.1 while its `with` block lasts, streamed and whole."""

    def __init__(self, words: Iterable[str] = ("Hello", " there")) -> None:
        """Says *words*, each in a chunk of its own. Starts nothing."""
        self.words = list(words)
        self.requests: list[dict[str, Any]] = []
        """The bodies of all requests, in the order of their coming."""
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Base URL, to be given to `FakeRegistry.add_engine`."""
        if self._server is None:
            raise RuntimeError("the fake engine is not started: use it in a `with` block")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        """Starts."""
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                engine._answer(self)

            def log_message(self, *_: object) -> None:
                """Says nothing on standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, name="kvlease-fake-engine", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _answer(self, http: BaseHTTPRequestHandler) -> None:
        body = json.loads(http.rfile.read(int(http.headers["content-length"])))
        self.requests.append(body)
        streamed = bool(body.get("stream"))
        answer = self._streamed() if streamed else self._whole()
        http.send_response(200)
        http.send_header("content-type", "text/event-stream" if streamed else "application/json")
        http.send_header("content-length", str(len(answer)))
        http.end_headers()
        http.wfile.write(answer)

    def _whole(self) -> bytes:
        message = {"role": "assistant", "content": "".join(self.words)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return json.dumps({"object": "chat.completion", "choices": [choice]}).encode()

    def _streamed(self) -> bytes:
        deltas: list[dict[str, str]] = [{"role": "assistant"}, *({"content": word} for word in self.words), {}]
        events = [
            {"object": _CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}]}
            for delta in deltas
        ]
        return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events) + b"data: [DONE]\n\n"
