"""Checks of request fields: all violations of a request are found before it is refused."""

from collections.abc import Collection

from google.protobuf.duration_pb2 import Duration

from kvlease.client import address
from kvlease.rpc import Malformed, Violation

NANOS = 1_000_000_000


class Checks:
    """Collects what is wrong; `done` raises it. Fields are named by their path in the request."""

    __slots__ = ("_violations",)

    def __init__(self) -> None:
        self._violations: list[Violation] = []

    def that(self, holds: bool, field: str, must: str) -> None:
        """Notes that the field must be something that it is not."""
        if not holds:
            self._violations.append(Violation(field, must))

    def name(self, value: str, field: str, longest: int, *, optional: bool = False) -> str:
        """Checks a name: 1 to so many bytes without NUL."""
        if 0 < len(value) <= longest and value.isascii() and "\0" not in value:
            return value
        if value or not optional:
            fits = 0 < len(value.encode()) <= longest and "\0" not in value
            self.that(fits, field, f"must be 1 to {longest} bytes without NUL")
        return value

    def url(self, value: str, field: str) -> None:
        """Checks where an HTTP server is."""
        try:
            address.check_url(value)
        except ValueError as error:
            self.that(False, field, str(error))

    def one_of(self, value: int, known: Collection[int], field: str) -> int:
        """Checks a number of an enum."""
        self.that(value in known, field, "must be one of the values that are defined")
        return value

    def seconds(self, value: Duration, field: str, longest: float) -> float:
        """Checks a length of time and returns it in seconds; 0 if it is absent."""
        seconds, nanos = value.seconds, value.nanos
        length = seconds + nanos / NANOS
        if not (0 <= nanos < NANOS and seconds >= 0 and length <= longest):
            self.that(False, field, f"must be a length of 0 to {longest:g} s")
        return length

    def done(self) -> None:
        """Raises Malformed if anything was wrong."""
        if self._violations:
            raise Malformed(*self._violations)
