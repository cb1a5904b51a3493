"""Who calls. The tenant and the role come from the call's metadata or credentials, never from a message."""

import enum
import re
from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
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
    GATEWAY = "gateway"
    APPLICATION = "application"
    OPERATOR = "operator"


class CredentialsWrong(Exception):
    """The caller did not show who it is."""


class RoleDenied(Exception):
    """The caller has none of the roles that the call needs."""

    def __init__(self, allowed: Collection[Role]) -> None:
        self.roles = ", ".join(sorted(role.value for role in allowed))
        super().__init__(f"only for callers in the role {self.roles}")


class EngineDenied(Exception):
    """The caller speaks for an engine that it is not."""

    def __init__(self, engine_id: str) -> None:
        super().__init__(f"the caller's credentials are not those of engine {engine_id}")
        self.engine_id = engine_id


class TenantDenied(Exception):
    """The caller names a tenant that is not its own."""

    def __init__(self) -> None:
        super().__init__(f"the tenant comes from the credentials: leave {TENANT_KEY} out")


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller: its tenant, what it may be, and the only engine that it may speak for, if there is but one."""

    tenant: str
    roles: frozenset[Role]
    engine: str = ""

    def speak_for(self, engine_id: str) -> None:
        """Raises EngineDenied for the id of an engine that the caller is not, nor a data-parallel rank of it."""
        if self.engine and not re.fullmatch(re.escape(self.engine) + r"(_dp[0-9]+)?", engine_id):
            raise EngineDenied(engine_id)


Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Identify: TypeAlias = Callable[[Context], Identity]
"""From a call to its caller, or an error."""

EVERYBODY = frozenset(Role)
admitted: ContextVar[Identity | None] = ContextVar("admitted", default=None)
"""Whom the server's guard let in with the present call."""


def caller(context: Context) -> Identity:
    """Returns who makes the present call; where no guard asks, whom the caller says it is."""
    return admitted.get() or trusting(context)


def trusting(context: Context) -> Identity:
    """Believes the tenant that the metadata names and grants every role: for networks where all callers are trusted."""
    return _trusted(named_tenant(context) or DEFAULT_TENANT)


@lru_cache(1024)
def _trusted(tenant: str) -> Identity:
    return Identity(tenant, EVERYBODY)


def named_tenant(context: Context) -> str:
    """Returns the tenant that the metadata names; empty for none. Raises Malformed."""
    given = [value for key, value in context.invocation_metadata() or () if key == TENANT_KEY]
    if not given:
        return ""
    tenant = given[0]
    if len(given) > 1 or not isinstance(tenant, str) or not 0 < len(tenant) <= MAX_TENANT_BYTES:
        raise Malformed(Violation(TENANT_KEY, f"must be given once, 1 to {MAX_TENANT_BYTES} bytes"))
    return tenant
