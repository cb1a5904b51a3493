"""The status and reason of everything that the router refuses."""

from grpc import StatusCode

from kvlease.router import errors
from kvlease.rpc import Status, Statuses
from kvlease.v1 import errors_pb2

STATUSES: Statuses = {
    errors.NoEngine: Status(StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_NO_ENGINE),
    errors.ModelNotFound: Status(StatusCode.NOT_FOUND, errors_pb2.ERROR_REASON_MODEL_NOT_FOUND),
    errors.RegistryUnreachable: Status(StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_REGISTRY_UNREACHABLE),
    errors.TicketForged: Status(StatusCode.INVALID_ARGUMENT, errors_pb2.ERROR_REASON_TICKET_FORGED),
    errors.TicketNotFound: Status(StatusCode.NOT_FOUND, errors_pb2.ERROR_REASON_TICKET_NOT_FOUND),
    errors.EngineMismatch: Status(StatusCode.FAILED_PRECONDITION, errors_pb2.ERROR_REASON_INCARNATION_MISMATCH),
    errors.RequestIdTaken: Status(StatusCode.ALREADY_EXISTS, errors_pb2.ERROR_REASON_ID_TAKEN),
}
