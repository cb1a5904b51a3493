"""What applications pass: what is wrong with it is told at once and by name, before anything is sent.

Of the wrong kind, it is a TypeError; of the right one, but such that nobody can serve it, `errors.Malformed`.
"""

import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from kvlease.client.errors import Malformed

MAX_ID_BYTES = 256
MAX_COUNT = 2**31 - 1
LONGEST = 365 * 86400.0
"""Seconds; gRPC takes much longer times for none at all."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")


def text(name: str, value: str) -> str:
    """Gives *value* as it is. Raises TypeError unless it is text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {value!r}")
    return value


def conversation(value: str, *, name: str = "conversation_id", optional: bool = False) -> str:
    """Gives a conversation's id as it is. Raises Malformed unless it can be one; empty is none, if that may be."""
    if not text(name, value) and optional:
        return value
    if not 0 < len(value.encode(errors="replace")) <= MAX_ID_BYTES:
        raise malformed(name, f"must be 1 to {MAX_ID_BYTES} bytes")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise malformed(name, "must be Unicode without NUL")
    return value


def seconds(name: str, value: float) -> float:
    """Gives *value*, or `LONGEST` if that is less. Raises TypeError unless it is a number, Malformed for NaN."""
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    if math.isnan(value):
        raise malformed(name, "must be a number of seconds, not NaN")
    return min(value, LONGEST)


def count(name: str, value: int) -> int:
    """Gives *value* as it is. Raises TypeError unless it is a whole number, Malformed for one that none counts to."""
    if not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if not 0 <= value <= MAX_COUNT:
        raise malformed(name, f"must be from 0 to {MAX_COUNT}, not {value}")
    return int(value)


def headers(value: Mapping[str, str]) -> dict[str, str]:
    """Gives the headers. Raises TypeError unless they are texts by texts, Malformed for what HTTP cannot carry."""
    for name, text in value.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            raise TypeError(f"headers must be texts by name, not {name!r}: {text!r}")
        if not _HEADER_NAME.fullmatch(name) or _NO_HEADER.search(text):
            raise malformed("headers", f"must be such as HTTP carries, which {name!r} is not")
    return dict(value)


def lifetime(name: str, value: float) -> float:
    """Gives *value* as it is. Raises Malformed unless it is a time for which something can live."""
    if not (seconds(name, value) > 0 and math.isfinite(value)):
        raise malformed(name, f"must be a positive number of seconds, not {value}")
    return value


def messages(value: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Gives the messages as a list. Raises TypeError unless each is a mapping."""
    if isinstance(value, str | Mapping) or not all(isinstance(message, Mapping) for message in value):
        raise TypeError(f"messages must be a list of {{'role': ..., 'content': ...}}, not {reprlib.repr(value)}")
    return list(value)


def malformed(name: str, fault: str) -> Malformed:
    """Names what is wrong with which argument."""
    return Malformed(f"{name} {fault}", violations={name: fault})
