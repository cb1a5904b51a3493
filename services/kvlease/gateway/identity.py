"""Which conversation a request belongs to."""

from kvlease.client.completions import IDENTITY
from kvlease.gateway.body import Members, read
from kvlease.gateway.errors import bad_request
from kvlease.gateway.http.message import Request

HEADERS = (
    b"x-session-id",
    b"x-conversation-id",
    b"x-dynamo-session-id",
    b"x-claude-code-session-id",
    b"session-id",
)
MAX_BYTES = 256


def conversation_of(request: Request, members: Members) -> str:
    """Returns the conversation id: of what names one, the first; empty if nothing does.

    An empty name, or null, names nothing.
    Raises ApiError for one of the wrong type, too long, or with a NUL.
    """
    for field in IDENTITY:
        if found := read(members, field, str, ""):
            return checked(found, field)
    for header in HEADERS:
        if value := request.header(header):
            return checked(_text(value, header.decode()), header.decode())
    return ""


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
