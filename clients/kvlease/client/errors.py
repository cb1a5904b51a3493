"""What callers see when a call fails: one exception per refusal, and never a `grpc.RpcError`.

A registry or router that refuses sends a gRPC status and one reason (`kvlease.v1.ErrorReason`).
Both together choose the exception; a reason that is not in the table gives the exception of its status:

================== ===================== =======================
status             reason                exception
================== ===================== =======================
INVALID_ARGUMENT                         InvalidArgument
INVALID_ARGUMENT   MALFORMED             Malformed
INVALID_ARGUMENT   TICKET_FORGED         TicketForged
UNAUTHENTICATED                          Unauthenticated
UNAUTHENTICATED    CREDENTIALS_WRONG     CredentialsWrong
PERMISSION_DENIED                        PermissionDenied
PERMISSION_DENIED  SESSION_SECRET_WRONG  SessionSecretWrong
PERMISSION_DENIED  ROLE_DENIED           RoleDenied
NOT_FOUND                                NotFound
NOT_FOUND          SESSION_NOT_FOUND     SessionNotFound
NOT_FOUND          LEASE_NOT_FOUND       LeaseNotFound
NOT_FOUND          NO_LEASE              NoLease
NOT_FOUND          NO_MATCH              NoMatch
NOT_FOUND          PREFILL_FAILED        PrefillFailed
NOT_FOUND          MODEL_NOT_FOUND       ModelNotFound
NOT_FOUND          TICKET_NOT_FOUND      TicketNotFound
NOT_FOUND          ENGINE_NOT_FOUND      EngineNotFound
ALREADY_EXISTS                           AlreadyExists
ALREADY_EXISTS     ID_TAKEN              IdTaken
FAILED_PRECONDITION                      FailedPrecondition
FAILED_PRECONDITION INCARNATION_MISMATCH IncarnationMismatch
FAILED_PRECONDITION TURN_OVER            TurnOver
ABORTED                                  Aborted
ABORTED            CLAIM_LOST            ClaimLost
RESOURCE_EXHAUSTED                       ResourceExhausted
RESOURCE_EXHAUSTED BUDGET_EXHAUSTED      BudgetExhausted
RESOURCE_EXHAUSTED TENANT_LIMIT          TenantLimit
RESOURCE_EXHAUSTED WATCHER_TOO_SLOW      WatcherTooSlow
DEADLINE_EXCEEDED                        DeadlineExceeded
DEADLINE_EXCEEDED  PREFILL_PENDING       PrefillPending
UNAVAILABLE                              Unavailable
UNAVAILABLE        PROMISE_TOO_SHORT     PromiseTooShort
UNAVAILABLE        DRAINING              Draining
UNAVAILABLE        NO_ENGINE             NoEngine
UNAVAILABLE        REGISTRY_UNREACHABLE  RegistryUnreachable
UNAVAILABLE        STORE_UNREACHABLE     StoreUnreachable
UNIMPLEMENTED                            Unimplemented
INTERNAL                                 Internal
INTERNAL           INTERNAL              ServerFault
any other                                KvleaseError
================== ===================== =======================

What goes wrong between the client and an engine, in `chat`, is an `EngineError`: `EngineUnreachable`, `EngineRefused`
or `AnswerBroken`. The client's own are `ClientClosed` and `NotAnswered`. An `InvalidArgument` is a `ValueError` too.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

DOMAIN = "kvlease"
DETAILS_KEY = "grpc-status-details-bin"
_NOTHING: Mapping[str, str] = MappingProxyType({})


class KvleaseError(Exception):
    """A call failed. The message is for people; the fields are for programs."""

    def __init__(
        self,
        message: str = "",
        *,
        reason: str = "",
        metadata: Mapping[str, str] = _NOTHING,
        retry_after: float | None = None,
        violations: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Keeps what the server said.

        Args:
            message: What was refused, and what to do.
            reason: Name of the `ErrorReason` without its prefix; empty where no kvlease server answered.
            metadata: The variable parts of the message.
            retry_after: Seconds after which the server asks to be called again.
            violations: What is wrong with which field of the request.
        """
        super().__init__(message)
        self.reason = reason
        self.metadata = dict(metadata)
        self.retry_after = retry_after
        self.violations = dict(violations)


class InvalidArgument(KvleaseError, ValueError):
    """The request can never be served as it is."""


class Malformed(InvalidArgument):
    """A field is missing or malformed; `violations` names it."""


class TicketForged(InvalidArgument):
    """The ticket is not one of this router's, or was changed."""


class Unauthenticated(KvleaseError):
    """The caller did not show who it is."""


class CredentialsWrong(Unauthenticated):
    """No credentials were shown, or wrong ones."""


class PermissionDenied(KvleaseError):
    """The caller may not do this."""


class SessionSecretWrong(PermissionDenied):
    """The secret is not the session's."""


class RoleDenied(PermissionDenied):
    """The caller's role may not do this, or not for that engine or tenant."""


class NotFound(KvleaseError):
    """What was asked for is unknown, gone, or another tenant's."""


class SessionNotFound(NotFound):
    """The session is unknown or was reaped: open a new one, then announce."""


class LeaseNotFound(NotFound):
    """The lease is unknown, gone, or another tenant's."""


class NoLease(NotFound):
    """The conversation has no lease that may be claimed."""


class NoMatch(NotFound):
    """No branch of the conversation begins like this prompt."""


class PrefillFailed(NotFound):
    """Prefill's KV will not come: compute the prompt."""


class ModelNotFound(NotFound):
    """No engine serves the model."""


class TicketNotFound(NotFound):
    """The ticket is unknown or over."""


class EngineNotFound(NotFound):
    """No engine of that id has a session."""


class AlreadyExists(KvleaseError):
    """The id is in use."""


class IdTaken(AlreadyExists):
    """The id belongs to another owner, or was used with other contents."""


class FailedPrecondition(KvleaseError):
    """The state does not allow it, now or later."""


class IncarnationMismatch(FailedPrecondition):
    """The engine has been restarted, or it is another one."""


class TurnOver(FailedPrecondition):
    """The turn was completed or cancelled."""


class Aborted(KvleaseError):
    """It was given up midway."""


class ClaimLost(Aborted):
    """The claim is over: what was read under it must not be used."""


class ResourceExhausted(KvleaseError):
    """A limit is reached; `retry_after` says when to try again, where known."""


class BudgetExhausted(ResourceExhausted):
    """Over the engine's retention budget, and nothing can go."""


class TenantLimit(ResourceExhausted):
    """Over the tenant's limit."""


class WatcherTooSlow(ResourceExhausted):
    """Events came faster than they were read: watch again."""


class DeadlineExceeded(KvleaseError):
    """No answer within the timeout; the call may have been carried out."""


class PrefillPending(DeadlineExceeded):
    """Prefill's lease was not there within the wait: ask again."""


class Unavailable(KvleaseError):
    """Nobody answers at that address, or not now. A retry may succeed."""

    never_answered = False
    """Nobody has ever answered this client there: the address may be wrong."""


class PromiseTooShort(Unavailable):
    """The owner cannot promise its blocks long enough now."""


class Draining(Unavailable):
    """The server is stopping."""


class NoEngine(Unavailable):
    """No engine fits the request."""


class RegistryUnreachable(Unavailable):
    """The router cannot reach the registry."""


class StoreUnreachable(Unavailable):
    """The registry cannot reach the store that it shares with others; it may or may not have been done."""


class Unimplemented(KvleaseError):
    """The server does not know this call: it is older, or is no kvlease server."""


class Internal(KvleaseError):
    """The server, or what lies between, broke the protocol."""


class ServerFault(Internal):
    """A fault of the server; its log has the details."""


class ClientClosed(KvleaseError):
    """The client was closed before or during the call, or what was being read was."""


class NotAnswered(KvleaseError):
    """A turn's message was asked for before anything of it had come."""


class EngineError(KvleaseError):
    """An engine did not answer a turn. Raised by `chat` only: no other call goes to an engine."""


class EngineUnreachable(EngineError):
    """No connection to the engine, or it broke before anything was said."""


class EngineRefused(EngineError):
    """The engine answered with an error: see `status`."""

    def __init__(self, message: str, *, status: int) -> None:
        """Keeps the HTTP status."""
        super().__init__(message)
        self.status = status


class AnswerBroken(EngineError):
    """The answer broke off, or told of an error instead of going on."""


_Code = grpc.StatusCode
EXCEPTIONS: Mapping[tuple[grpc.StatusCode, str], type[KvleaseError]] = MappingProxyType(
    {
        (_Code.INVALID_ARGUMENT, ""): InvalidArgument,
        (_Code.INVALID_ARGUMENT, "MALFORMED"): Malformed,
        (_Code.INVALID_ARGUMENT, "TICKET_FORGED"): TicketForged,
        (_Code.UNAUTHENTICATED, ""): Unauthenticated,
        (_Code.UNAUTHENTICATED, "CREDENTIALS_WRONG"): CredentialsWrong,
        (_Code.PERMISSION_DENIED, ""): PermissionDenied,
        (_Code.PERMISSION_DENIED, "SESSION_SECRET_WRONG"): SessionSecretWrong,
        (_Code.PERMISSION_DENIED, "ROLE_DENIED"): RoleDenied,
        (_Code.NOT_FOUND, ""): NotFound,
        (_Code.NOT_FOUND, "SESSION_NOT_FOUND"): SessionNotFound,
        (_Code.NOT_FOUND, "LEASE_NOT_FOUND"): LeaseNotFound,
        (_Code.NOT_FOUND, "NO_LEASE"): NoLease,
        (_Code.NOT_FOUND, "NO_MATCH"): NoMatch,
        (_Code.NOT_FOUND, "PREFILL_FAILED"): PrefillFailed,
        (_Code.NOT_FOUND, "MODEL_NOT_FOUND"): ModelNotFound,
        (_Code.NOT_FOUND, "TICKET_NOT_FOUND"): TicketNotFound,
        (_Code.NOT_FOUND, "ENGINE_NOT_FOUND"): EngineNotFound,
        (_Code.ALREADY_EXISTS, ""): AlreadyExists,
        (_Code.ALREADY_EXISTS, "ID_TAKEN"): IdTaken,
        (_Code.FAILED_PRECONDITION, ""): FailedPrecondition,
        (_Code.FAILED_PRECONDITION, "INCARNATION_MISMATCH"): IncarnationMismatch,
        (_Code.FAILED_PRECONDITION, "TURN_OVER"): TurnOver,
        (_Code.ABORTED, ""): Aborted,
        (_Code.ABORTED, "CLAIM_LOST"): ClaimLost,
        (_Code.RESOURCE_EXHAUSTED, ""): ResourceExhausted,
        (_Code.RESOURCE_EXHAUSTED, "BUDGET_EXHAUSTED"): BudgetExhausted,
        (_Code.RESOURCE_EXHAUSTED, "TENANT_LIMIT"): TenantLimit,
        (_Code.RESOURCE_EXHAUSTED, "WATCHER_TOO_SLOW"): WatcherTooSlow,
        (_Code.DEADLINE_EXCEEDED, ""): DeadlineExceeded,
        (_Code.DEADLINE_EXCEEDED, "PREFILL_PENDING"): PrefillPending,
        (_Code.UNAVAILABLE, ""): Unavailable,
        (_Code.UNAVAILABLE, "PROMISE_TOO_SHORT"): PromiseTooShort,
        (_Code.UNAVAILABLE, "DRAINING"): Draining,
        (_Code.UNAVAILABLE, "NO_ENGINE"): NoEngine,
        (_Code.UNAVAILABLE, "REGISTRY_UNREACHABLE"): RegistryUnreachable,
        (_Code.UNAVAILABLE, "STORE_UNREACHABLE"): StoreUnreachable,
        (_Code.UNIMPLEMENTED, ""): Unimplemented,
        (_Code.INTERNAL, ""): Internal,
        (_Code.INTERNAL, "INTERNAL"): ServerFault,
    }
)


_UNSAID = {
    _Code.UNAVAILABLE: "no {server} answers at {address}: {said}",
    _Code.DEADLINE_EXCEEDED: "the {server} at {address} did not answer in time",
    _Code.UNIMPLEMENTED: "what answers at {address} is no {server}, or an older one: {said}",
}
"""What is told where no server of kvlease said it."""


def from_rpc(error: grpc.RpcError, server: str = "server", address: str = "its address") -> KvleaseError:
    """Gives the exception for what gRPC raised when a *server*, such as a registry, was called at *address*."""
    status = _status(error)
    info, retry, bad = ErrorInfo(), RetryInfo(), BadRequest()
    for detail in status.details:
        any(detail.Unpack(into) for into in (info, retry, bad))
    reason = info.reason if info.domain == DOMAIN else ""
    code = error.code()
    kind = EXCEPTIONS.get((code, reason)) or EXCEPTIONS.get((code, ""), KvleaseError)
    said = error.details() or code.name
    return kind(
        said if status.code else _UNSAID.get(code, "{said}").format(server=server, address=address, said=said),
        reason=reason,
        metadata=info.metadata,
        retry_after=retry.retry_delay.ToTimedelta().total_seconds() if retry.HasField("retry_delay") else None,
        violations={violation.field: violation.description for violation in bad.field_violations},
    )


def _status(error: grpc.RpcError) -> Status:
    """Reads the details that a kvlease server sends; empty where another party answered."""
    trailing = cast("Iterable[tuple[str, bytes]]", error.trailing_metadata() or ())
    for key, value in trailing:
        if key == DETAILS_KEY:
            try:
                return Status.FromString(value)
            except DecodeError:  # not of a kvlease server: the status code still tells enough
                break
    return Status()
