"""From domain exceptions to google.rpc.Status, through one table per service.

A service raises its own exceptions, which know no gRPC. The class is looked up in the service's table; code, reason
and the exception's public attributes are sent. Two attributes have a meaning of their own: `violations` becomes
BadRequest, `retry_after` (seconds) becomes RetryInfo. What is in no table is a fault of ours: INTERNAL, and nothing of
it is shown.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import grpc
from google.protobuf import duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from kvlease.v1 import errors_pb2

DOMAIN = "kvlease"
# Trailing metadata has room for a few KiB only; an error must not fail for its own length.
MAX_MESSAGE = 1024
MAX_VALUE = 256
MAX_VIOLATIONS = 8


class Status(NamedTuple):
    """What a refusal looks like on the wire."""

    code: grpc.StatusCode
    reason: errors_pb2.ErrorReason.ValueType


Statuses: TypeAlias = Mapping[type[Exception], Status]


class Violation(NamedTuple):
    """A field that is wrong, by its path in the request, and what it must be."""

    field: str
    description: str


class Malformed(Exception):
    """The request does not say what it must."""

    def __init__(self, *violations: Violation) -> None:
        super().__init__("; ".join(f"{v.field} {v.description}" for v in violations))
        self.violations = violations


class Draining(Exception):
    """This server is stopping; another replica, or the next one here, will answer."""

    def __init__(self) -> None:
        super().__init__("this server is stopping; call again")


INTERNAL = Status(grpc.StatusCode.INTERNAL, errors_pb2.ERROR_REASON_INTERNAL)


def status_of(error: Exception, statuses: Statuses) -> status_pb2.Status:
    """Returns the status of an error by the nearest class in the table; for none, INTERNAL without details."""
    found = next((statuses[cls] for cls in type(error).__mro__ if cls in statuses), INTERNAL)
    if found is INTERNAL:
        return _status(INTERNAL, "internal error; the server's log has the details", {})
    public = {key: value for key, value in vars(error).items() if not key.startswith("_")}
    violations = public.pop("violations", ())
    retry_after = public.pop("retry_after", None)
    status = _status(found, str(error), public)
    if violations:
        _add(status, _bad_request(violations))
    if retry_after is not None:
        _add(status, error_details_pb2.RetryInfo(retry_delay=duration(retry_after)))
    return status


def duration(seconds: float) -> duration_pb2.Duration:
    """Returns whole milliseconds, which people can read, rounded down: a promise is never lengthened on its way."""
    written = duration_pb2.Duration()
    write(seconds, written)
    return written


def write(seconds: float, into: duration_pb2.Duration) -> None:
    """Writes the same into an answer's own field, which is cheaper than to copy it there."""
    whole, milliseconds = divmod(round(seconds * 1e9) // 1_000_000, 1000)
    into.seconds, into.nanos = whole, milliseconds * 1_000_000


def _status(status: Status, message: str, data: Mapping[str, object]) -> status_pb2.Status:
    reason = errors_pb2.ErrorReason.Name(status.reason).removeprefix("ERROR_REASON_")
    metadata = {key: str(value)[:MAX_VALUE] for key, value in data.items()}
    result = status_pb2.Status(code=status.code.value[0], message=message[:MAX_MESSAGE])
    _add(result, error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata))
    return result


def _add(status: status_pb2.Status, detail: Message) -> None:
    status.details.add().Pack(detail)


def _bad_request(violations: Iterable[tuple[str, str]]) -> error_details_pb2.BadRequest:
    bad = error_details_pb2.BadRequest()
    for field, description in list(violations)[:MAX_VIOLATIONS]:
        bad.field_violations.add(field=field[:MAX_VALUE], description=description[:MAX_VALUE])
    return bad
