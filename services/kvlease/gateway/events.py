"""A stream of server-sent events, cut where a turn ends. Bytes in, bytes out, unchanged and in order.

Most events pass as they come. Held back are: the first ones, while they say nothing yet; and the last ones, from the
event that ends the last choice, until the turn is completed.
"""

import enum
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kvlease.gateway.body import UNREADABLE

_BOUNDARY = re.compile(rb"\r\n\r\n|\n\n|\n\r\n|\r\r")
_RARE_ENDS = (b"\n\r\n", b"\r\r")
_MARKS = (b'"finish_reason":"', b'"finish_reason": "', b"[DONE]", b'data: {"error"', b'data:{"error"')
_NEWLINES = 2  # of an event of one line
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"([^"]*)"')
_DATA = re.compile(rb"^data:[ ]?(.*?)\r?$", re.MULTILINE)
_ERROR = re.compile(rb'^data:\s*\{\s*"error"\s*:', re.MULTILINE)
_DONE = re.compile(rb"^data:\s*\[DONE\]", re.MULTILINE)


class Stage(enum.Enum):
    """How far a stream is."""

    OPENING = enum.auto()
    """Nothing was said yet."""
    FLOWING = enum.auto()
    ENDING = enum.auto()
    """All choices have ended, or the stream said that it is done."""
    FAILED = enum.auto()
    """It said, before anything else, that there is no answer."""


class EventStream:
    """Follows one stream of an answer with so many choices."""

    def __init__(self, choices: int) -> None:
        self.stage = Stage.OPENING
        self.finish_reasons: set[str] = set()
        self.broken = False
        """An error was told in the stream."""
        self._single = choices == 1
        self._open_choices = choices
        self._held = b""
        self._partial = b""

    def feed(self, data: bytes) -> bytes:
        """Takes some bytes; returns those that may pass now."""
        if self.stage is Stage.FLOWING and not self._partial:
            if self._single and _goes_on(data):
                return data
            if data.endswith(b"\n\n") and not _marked(data):
                return data
        events, self._partial = _cut(self._partial + data)
        if self.stage is Stage.FLOWING and not _marked(events):
            return events
        passed, at = b"", 0
        while at < len(events):
            if self.stage is Stage.FLOWING and (plain := _plain(events, at)) > at:
                passed, at = passed + events[at:plain], plain
                continue
            if self.stage in (Stage.ENDING, Stage.FAILED):
                self._held += events[at:]
                break
            end = _end(events, at)
            passed, at = passed + self._take(events[at:end]), end
        return passed

    def open(self) -> bytes:
        """Holds the opening back no longer; returns it."""
        if self.stage is not Stage.OPENING or not self._held:
            return b""
        self.stage = Stage.FLOWING
        opening, self._held = self._held, b""
        return opening

    def rest(self) -> bytes:
        """Returns what is held back, to be called once the stream has ended."""
        rest, self._held, self._partial = self._held + self._partial, b"", b""
        return rest

    def _take(self, event: bytes) -> bytes:
        """Takes one event; returns what may pass now."""
        opening = self.stage is Stage.OPENING
        self._follow(event)
        passed = b""
        if self.stage is Stage.FLOWING or (opening and self.stage is Stage.ENDING):
            passed, self._held = self._held, b""
        if self.stage is Stage.FLOWING:
            return passed + event
        self._held += event
        return passed

    def _follow(self, event: bytes) -> None:
        reasons = _FINISH.findall(event)
        self.finish_reasons.update(reason.decode() for reason in reasons)
        self._open_choices -= len(reasons)
        error = _ERROR.search(event) is not None
        self.broken = self.broken or error
        if self.stage is Stage.OPENING:
            self._begin(event, over=error or _DONE.search(event) is not None)
        if self._open_choices <= 0 or (self.stage is Stage.FLOWING and _DONE.search(event)):
            self.stage = Stage.ENDING

    def _begin(self, event: bytes, *, over: bool) -> None:
        if over:
            self.stage = Stage.FAILED
        elif says_something(event):
            self.stage = Stage.FLOWING


def split(events: bytes) -> Iterator[bytes]:
    """Yields whole events, each with its boundary."""
    start = 0
    for boundary in _BOUNDARY.finditer(events):
        yield events[start : boundary.end()]
        start = boundary.end()
    if start < len(events):
        yield events[start:]


def payload(event: bytes) -> bytes:
    """Returns the data of an event; empty for a comment."""
    return b"\n".join(_DATA.findall(event))


def says_something(event: bytes) -> bool:
    """Tells whether an event carries a part of an answer. The first of a chat names the role and nothing else."""
    data = payload(event)
    if not data:
        return False
    try:
        chunk: Any = msgspec.json.decode(data)
    except UNREADABLE:
        return True
    if not isinstance(chunk, dict) or not isinstance(chunk.get("choices"), list):
        return True
    return any(isinstance(choice, dict) and _choice_says(choice) for choice in chunk["choices"])


def _choice_says(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta") or {}
    said = [value for name, value in delta.items() if name != "role"] if isinstance(delta, dict) else [delta]
    return bool(choice.get("finish_reason") or choice.get("text") or any(said))


def _goes_on(data: bytes) -> bool:
    """Tells whether this is one event of an only choice that has not ended. Nearly all are, and this is quick."""
    return data.count(b"\n") == _NEWLINES and data.endswith(b"\n\n") and data.rfind(b'"finish_reason":null') > 0


def _marked(data: bytes) -> bool:
    """Tells whether anything in here may be of interest.

    In a JSON string every quote has a backslash before it, so none of these can be part of what a model wrote; but for
    "[DONE]", which is looked at more closely.
    """
    finish, spaced, done, error, packed = (
        _MARKS  # written out: this is asked of every event that is not of the usual form
    )
    return finish in data or spaced in data or done in data or error in data or packed in data


def _plain(events: bytes, start: int) -> int:
    """Returns where the first event from *start* on begins in which anything may be of interest."""
    found = [at for mark in _MARKS if (at := events.find(mark, start)) >= 0]
    return _last_end(events, start, min(found)) if found else len(events)


def _end(events: bytes, start: int) -> int:
    """Returns where the event that begins at *start* ends."""
    boundary = _BOUNDARY.search(events, start)
    return boundary.end() if boundary else len(events)


def _last_end(data: bytes, start: int, stop: int) -> int:
    """Returns where the last event ends that is whole before *stop*; *start* if none is."""
    found = data.rfind(b"\n\n", start, stop)
    end = found + _NEWLINES if found >= 0 else start
    if data.find(b"\r", end, stop) < 0:
        return end  # no engine of today writes others; to look for them is to look through everything
    rare = [at + len(mark) for mark in _RARE_ENDS if (at := data.rfind(mark, max(start, end - 1), stop)) >= 0]
    return max(rare, default=end)


def _cut(data: bytes) -> tuple[bytes, bytes]:
    """Cuts behind the last whole event."""
    end = _last_end(data, 0, len(data))
    return data[:end], data[end:]
