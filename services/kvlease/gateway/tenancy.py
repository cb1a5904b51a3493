"""Whose a request is."""

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from kvlease.gateway.http.message import Headers, Request
from kvlease.gateway.keyring import Keyring
from kvlease.rpc import Protection, keys
from kvlease.rpc.limits import Meter


class Tenancy(Protocol):
    """Tells tenants, and how much they may ask for."""

    def __call__(self, request: Request) -> str:
        """Returns the tenant that a request is from. Raises ApiError for one that may not ask."""

    def check(self, headers: Headers) -> None:
        """Raises Refused for a stranger, before a long body is taken from it."""

    def running(self, tenant: str) -> AbstractContextManager[None]:
        """Counts a tenant's request as running until left. Raises ApiError for one too many."""


class Trusting:
    """Serves everybody as one tenant: for networks where all callers are trusted."""

    def __call__(self, request: Request) -> str:
        del request
        return "default"

    def check(self, headers: Headers) -> None:
        pass

    def running(self, tenant: str) -> AbstractContextManager[None]:
        del tenant
        return _NOTHING


_NOTHING = nullcontext()


def tenancy(protection: Protection) -> Tenancy:
    """Returns what the settings ask for. Raises OSError or ValueError for a keys file that makes no sense."""
    if protection.keys_file is None:
        return Trusting()
    known = keys.watch(protection.keys_file)
    return Keyring(known, Meter(lambda tenant: known.get().limits_of(tenant), time.monotonic))
