"""A JSON object whose members keep their original bytes: edited without reading or writing the large ones anew."""

from typing import Any, TypeAlias, TypeVar

import msgspec

from kvlease.gateway.errors import bad_request

Members: TypeAlias = dict[str, msgspec.Raw]
"""Top-level members of a JSON object, in order; of a repeated name the last, as in every JSON reader at hand."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for what is not there to be read; msgspec before 0.23 lets the second through."""

T = TypeVar("T", str, bool, int)

_SCALARS: dict[type, Any] = {kind: msgspec.json.Decoder(kind | None) for kind in (str, bool, int)}
_members = msgspec.json.Decoder(Members)


def parse(data: bytes | msgspec.Raw) -> Members:
    """Takes a JSON object apart. Raises ApiError for anything else."""
    try:
        return _members.decode(data)
    except msgspec.ValidationError as error:
        raise bad_request("the body is not a JSON object") from error
    except UNREADABLE as error:
        raise bad_request(f"the body is not valid JSON: {error}") from error


def render(members: Members) -> list[bytes | msgspec.Raw]:
    """Puts an object together, as pieces to be joined."""
    pieces: list[bytes | msgspec.Raw] = []
    for name, value in members.items():
        pieces += (b",", msgspec.json.encode(name), b":", value)
    if pieces:
        pieces[0] = b"{"
    else:
        pieces.append(b"{")
    pieces.append(b"}")
    return pieces


def raw(value: object) -> msgspec.Raw:
    """Encodes a value as a member."""
    return msgspec.Raw(msgspec.json.encode(value))


def read(members: Members, name: str, kind: type[T], default: T) -> T:
    """Reads a member; the default when it is absent or null. Raises ApiError when it is of another kind."""
    value = members.get(name)
    if value is None:
        return default
    try:
        found: T | None = _SCALARS[kind].decode(value)
    except UNREADABLE as error:
        raise bad_request(f"`{name}` must be of type {kind.__name__}", param=name) from error
    return default if found is None else found
