"""Requests and heads of answers as values."""

import time
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TypeAlias

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Names in lower case, in the order of arrival."""

# Of one connection, not of the message (RFC 9110, 7.6.1), or set anew by whoever sends the message on.
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"content-length",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
JSON: tuple[bytes, bytes] = (b"content-type", b"application/json")

_REASONS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Request:
    """One request, read whole."""

    method: str
    path: str
    """Percent-encoded, without the query."""
    headers: Headers
    body: bytes = b""

    def header(self, name: bytes) -> bytes | None:
        """Returns the first header of that lower-case name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


def end_to_end(headers: Headers) -> Headers:
    """Returns the headers that a proxy passes on."""
    return [header for header in headers if header[0] not in HOP_BY_HOP]


def head(status: int, headers: Headers, framing: bytes) -> bytes:
    """Renders the head of an answer; *framing* is its last header lines, each with its CRLF."""
    dated = any(name == b"date" for name, _ in headers)
    lines = [_REASONS.get(status) or b"HTTP/1.1 %d \r\n" % status]
    lines += [b"%b: %b\r\n" % header for header in headers]
    if not dated:
        lines.append(_date(int(time.time())))
    lines += (framing, b"\r\n")
    return b"".join(lines)


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return b"date: %b\r\n" % formatdate(second, usegmt=True).encode()
