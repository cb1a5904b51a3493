"""What every gRPC server of kvlease needs: a frame, one error table per service, logs, the caller's identity."""

from kvlease.rpc.errors import Draining, Malformed, Status, Statuses, Violation
from kvlease.rpc.identity import Identify, Identity, Role, RoleDenied, caller, trusting
from kvlease.rpc.protection import OPEN, Protection
from kvlease.rpc.server import Server, Service, stop_signal

__all__ = [
    "OPEN",
    "Draining",
    "Identify",
    "Identity",
    "Malformed",
    "Protection",
    "Role",
    "RoleDenied",
    "Server",
    "Service",
    "Status",
    "Statuses",
    "Violation",
    "caller",
    "stop_signal",
    "trusting",
]
