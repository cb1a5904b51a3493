"""Reads requests from bytes: limits, refusals, no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

import httptools

from kvlease.gateway.http.limits import Limits
from kvlease.gateway.http.message import Headers, Request

_VERSIONS = ("1.1", "1.0")
_UPGRADE = frozenset({b"upgrade", b"http2-settings", b"connection"})
FREE_BODY = 64 * 1024
"""Bytes of a body that are taken from whoever connects."""


class Refused(Exception):
    """The request is not taken."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request that was read whole, and what it says of its connection."""

    request: Request
    version: str
    keep_alive: bool


def anybody(_: Headers) -> None:
    """Lets everybody send long bodies."""


class RequestReader:
    """Reads one request. Make another for the next one only once this one is answered."""

    def __init__(
        self, limits: Limits, *, on_expect: Callable[[], None], check: Callable[[Headers], None] = anybody
    ) -> None:
        """Calls *on_expect* when the client waits for leave to send its body.

        *check* is asked before a long one is taken, and may raise Refused.
        """
        self.begun = False
        """Whether anything of the request has come."""
        self.surplus = False
        """Whether something came behind the request."""
        self._limits = limits
        self._on_expect = on_expect
        self._check = check
        self._complete: Incoming | None = None
        self._restart()

    def feed(self, data: bytes) -> Incoming | None:
        """Takes what has come; returns the request once it is whole. Raises Refused."""
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            if self._complete is None:
                refusal = error.__context__
                raise refusal if isinstance(refusal, Refused) else _nonsense() from error
            self.surplus = True
        return self._complete

    @property
    def in_body(self) -> bool:
        """Whether the head is read and the body is not."""
        return not self._in_head and self._complete is None

    @property
    def method(self) -> str:
        """As far as it is known."""
        return self._parser.get_method().decode() if self._url else "GET"

    def _feed(self, data: bytes) -> None:
        self._head_size += len(data) if self._in_head else 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        if self._in_head:
            self._check_head(self._head_size)

    def _restart(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: Headers = []
        self._body: list[bytes] = []
        self._body_size = self._head_size = 0
        self._in_head = True
        self._upgrading = False

    def let_go(self) -> None:
        """Keeps nothing of the request that was read: parser and reader hold one another, and would keep it long."""
        self._body, self._headers, self._complete = [], [], None

    def _decline_upgrade(self, rest: bytes) -> None:
        """Reads the request again as one that asks for no other protocol: Java's clients always ask for HTTP/2."""
        lines = [b"%b %b HTTP/1.1\r\n" % (self._parser.get_method(), self._url)]
        lines += [b"%b: %b\r\n" % header for header in self._headers if header[0] not in _UPGRADE]
        self._restart()
        self._feed(b"".join((*lines, b"\r\n", rest)))

    def _check_head(self, size: int) -> None:
        limit = self._limits.head_bytes
        if size > limit:
            raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the headers are over {limit} bytes")

    def _check_body(self, size: int) -> None:
        limit = self._limits.body_bytes
        if size > limit:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is over {limit} bytes")

    # The parser's calls. What they raise comes out of `feed_data` as the context of its error.

    def on_message_begin(self) -> None:
        if self._complete is not None:
            raise Refused(HTTPStatus.BAD_REQUEST, "requests are not pipelined")
        self.begun = True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._parser.get_http_version() not in _VERSIONS:
            raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.1 and 1.0 are spoken here")
        if self._parser.get_method() == b"CONNECT":
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "this is no proxy")
        self._upgrading = self._parser.should_upgrade()
        self._check_head(len(self._url) + sum(len(name) + len(value) + 4 for name, value in self._headers))
        expects = long = False
        for name, value in self._headers:
            if name == b"content-length":
                self._check_body(int(value))
                long = int(value) > FREE_BODY
            elif name == b"transfer-encoding":
                long = True
            elif name == b"expect":
                expects = value.lower() == b"100-continue"
        if long:
            self._check(self._headers)
        if expects and not self._upgrading:
            self._on_expect()

    def on_body(self, data: bytes) -> None:
        self._body_size += len(data)
        self._check_body(self._body_size)
        self._body.append(data)

    def on_message_complete(self) -> None:
        if self._upgrading:
            return
        path = httptools.parse_url(self._url).path or b"/"
        request = Request(self.method, path.decode("latin-1"), self._headers, b"".join(self._body))
        self._complete = Incoming(request, self._parser.get_http_version(), self._parser.should_keep_alive())


def _nonsense() -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, "this is no HTTP/1.1 request")
