"""Who calls. The tenant and the roles come from the call's metadata or credentials, never from a message."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc

from kvlease.rpc.errors import Malformed, Violation

TENANT_KEY = "x-kvlease-tenant"
DEFAULT_TENANT = "default"
MAX_TENANT_BYTES = 256


class Role(enum.Enum):
    """What a caller may be."""

    ENGINE = "engine"
    ROUTER = "router"
    APPLICATION = "application"
    OPERATOR = "operator"


class RoleDenied(Exception):
    """The caller has not the role that the call needs."""

    def __init__(self, role: Role) -> None:
        super().__init__(f"only for callers in the role {role.value}")
        self.role = role.value


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller: its tenant and what it may be."""

    tenant: str
    roles: frozenset[Role]

    def require(self, role: Role) -> None:
        """Raises RoleDenied unless the caller has the role."""
        if role not in self.roles:
            raise RoleDenied(role)


Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Identify: TypeAlias = Callable[[Context], Identity]
"""The seam for authentication: from a call to its caller, or an error."""


def trusting(context: Context) -> Identity:
    """Believes the tenant that the metadata names and grants every role: for networks where all callers are trusted."""
    given = [value for key, value in context.invocation_metadata() or () if key == TENANT_KEY]
    if not given:
        return Identity(DEFAULT_TENANT, frozenset(Role))
    tenant = given[0]
    if len(given) > 1 or not isinstance(tenant, str) or not 0 < len(tenant) <= MAX_TENANT_BYTES:
        raise Malformed(Violation(TENANT_KEY, f"must be given once, 1 to {MAX_TENANT_BYTES} bytes"))
    return Identity(tenant, frozenset(Role))
