"""The status and the reason of each refusal: the registry's one table."""

from types import MappingProxyType

from grpc import StatusCode

from kvlease.registry import errors
from kvlease.rpc import Status, Statuses
from kvlease.v1 import errors_pb2 as reasons

STATUSES: Statuses = MappingProxyType(
    {
        errors.SessionNotFound: Status(StatusCode.NOT_FOUND, reasons.ERROR_REASON_SESSION_NOT_FOUND),
        errors.SecretWrong: Status(StatusCode.PERMISSION_DENIED, reasons.ERROR_REASON_SESSION_SECRET_WRONG),
        errors.NumberUnknown: Status(StatusCode.INVALID_ARGUMENT, reasons.ERROR_REASON_MALFORMED),
        errors.LeaseNotFound: Status(StatusCode.NOT_FOUND, reasons.ERROR_REASON_LEASE_NOT_FOUND),
        errors.EngineNotFound: Status(StatusCode.NOT_FOUND, reasons.ERROR_REASON_ENGINE_NOT_FOUND),
        errors.NoLease: Status(StatusCode.NOT_FOUND, reasons.ERROR_REASON_NO_LEASE),
        errors.NoMatch: Status(StatusCode.NOT_FOUND, reasons.ERROR_REASON_NO_MATCH),
        errors.PrefillFailed: Status(StatusCode.NOT_FOUND, reasons.ERROR_REASON_PREFILL_FAILED),
        errors.PrefillPending: Status(StatusCode.DEADLINE_EXCEEDED, reasons.ERROR_REASON_PREFILL_PENDING),
        errors.IncarnationMismatch: Status(StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_INCARNATION_MISMATCH),
        errors.TurnOver: Status(StatusCode.FAILED_PRECONDITION, reasons.ERROR_REASON_TURN_OVER),
        errors.ClaimLost: Status(StatusCode.ABORTED, reasons.ERROR_REASON_CLAIM_LOST),
        errors.BudgetExhausted: Status(StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_BUDGET_EXHAUSTED),
        errors.TenantLimit: Status(StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_TENANT_LIMIT),
        errors.IdTaken: Status(StatusCode.ALREADY_EXISTS, reasons.ERROR_REASON_ID_TAKEN),
        errors.PromiseTooShort: Status(StatusCode.UNAVAILABLE, reasons.ERROR_REASON_PROMISE_TOO_SHORT),
        errors.WatcherTooSlow: Status(StatusCode.RESOURCE_EXHAUSTED, reasons.ERROR_REASON_WATCHER_TOO_SLOW),
        errors.StoreUnreachable: Status(StatusCode.UNAVAILABLE, reasons.ERROR_REASON_STORE_UNREACHABLE),
    }
)
