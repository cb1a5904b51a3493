"""Which conversation a request belongs to."""

from collections.abc import Iterable

from kvlease.client.completions import IDENTITY
from kvlease.gateway.body import Members, read
from kvlease.gateway.errors import bad_request
from kvlease.gateway.http.message import Request

HEADERS = (b"x-session-id", b"x-conversation-id")
TOOLS_HEADERS = (b"x-dynamo-session-id", b"x-claude-code-session-id", b"session-id")
"""Sent by tools of their own accord: they count where the caller names nothing, and contradict nothing."""
MAX_BYTES = 256


def conversation_of(request: Request, members: Members) -> str:
    """Returns the conversation id; empty if nothing names one. An empty name, or null, names nothing.

    Raises ApiError for one of the wrong type, too long, or with a NUL, and where the caller names two.
    """
    named = [(checked(name, field), field) for field in IDENTITY if (name := read(members, field, str, ""))]
    named += _in(request, HEADERS)
    for name, source in named[1:]:
        if name != named[0][0]:
            first = f"`{named[0][1]}` says {named[0][0]!r}"
            raise bad_request(f"two conversations are named: {first}, `{source}` says {name!r}", param=source)
    named = named or _in(request, TOOLS_HEADERS)
    return named[0][0] if named else ""


def _in(request: Request, headers: Iterable[bytes]) -> list[tuple[str, str]]:
    """Returns the ids that headers name, each with its header's name."""
    found = [(value, name.decode()) for name in headers for key, value in request.headers if key == name and value]
    return [(checked(_text(value, source), source), source) for value, source in found]


def checked(conversation_id: str, source: str) -> str:
    """Returns the id. Raises ApiError when it cannot be one; *source* names where it came from."""
    if len(conversation_id.encode()) > MAX_BYTES:
        raise bad_request(f"`{source}` is longer than {MAX_BYTES} bytes", param=source)
    if "\0" in conversation_id:
        raise bad_request(f"`{source}` contains a NUL", param=source)
    return conversation_id


def _text(value: bytes, source: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise bad_request(f"`{source}` is not UTF-8", param=source) from error
