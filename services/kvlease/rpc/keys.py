"""The keys file: who is let in with a bearer token, as whom, and how much its tenant may ask for.

It is TOML and knows no key, only the SHA-256 of each; keys are random and long, so that this suffices.

    [[keys]]
    sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    role = "application"        # or engine, router, gateway, operator
    tenant = "team-a"           # of an application

    [tenants.team-a]            # or [tenants."*"], for all that are not named
    rate = 50.0                 # requests per second; burst, concurrent and request_bytes likewise
"""

import hashlib
import hmac
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kvlease.rpc.identity import DEFAULT_TENANT, MAX_TENANT_BYTES, Role
from kvlease.rpc.limits import Limits
from kvlease.rpc.watched import Watched

PREFIX = "kvk_"  # for scanners that look for secrets where none should be
OTHERS = "*"  # the tenants that have no limits of their own
_FINDER = 8  # bytes of a hash by which a key is looked up; the rest is compared in constant time


@dataclass(frozen=True, slots=True)
class Key:
    """Whom a key lets in. *tenant* is an application's; *engine* the only one that it may speak for, if given."""

    sha256: bytes = field(repr=False)
    role: Role
    tenant: str = ""
    engine: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError for what makes no sense."""
        if len(self.sha256) != hashlib.sha256().digest_size:
            raise ValueError("sha256 must be 64 hexadecimal digits")
        if (self.role is Role.APPLICATION) != bool(self.tenant) or len(self.tenant.encode()) > MAX_TENANT_BYTES:
            raise ValueError(f"an application has a tenant, such as {DEFAULT_TENANT!r}, and nobody else has")
        if self.engine and self.role is not Role.ENGINE:
            raise ValueError("only an engine has an engine id")


class Keys:
    """All that a keys file says."""

    def __init__(self, keys: list[Key], tenants: Mapping[str, Limits]) -> None:
        self._keys = {key.sha256[:_FINDER]: key for key in keys}
        self._tenants = tenants
        self._others = tenants.get(OTHERS, Limits())

    def find(self, token: str) -> Key | None:
        """Returns whom a token lets in."""
        digest = hash_of(token)
        key = self._keys.get(digest[:_FINDER])
        return key if key is not None and hmac.compare_digest(key.sha256, digest) else None

    def limits_of(self, tenant: str) -> Limits:
        return self._tenants.get(tenant, self._others)


def watch(file: Path) -> Watched[Keys]:
    """Reads a keys file, and again when it changes. Raises OSError, and ValueError for one that makes no sense."""
    return Watched([file], lambda: parse(file.read_text(), str(file)))


def parse(text: str, name: str) -> Keys:
    """Reads the text of a keys file. Raises ValueError, which names the file and what is wrong in it."""
    try:
        return _parse(**tomllib.loads(text))
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{name}: {error}") from error


def make() -> str:
    """Makes a new key."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _parse(keys: list[dict[str, Any]], tenants: Mapping[str, dict[str, Any]] = MappingProxyType({})) -> Keys:
    known = [_key(number, entry) for number, entry in enumerate(keys, 1)]
    return Keys(known, {tenant: _limits(tenant, limits) for tenant, limits in tenants.items()})


def _key(number: int, entry: dict[str, Any]) -> Key:
    try:
        return Key(**{**entry, "sha256": bytes.fromhex(entry["sha256"]), "role": Role(entry["role"])})
    except KeyError as error:
        raise ValueError(f"key {number}: {error} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"key {number}: {error}") from error


def _limits(tenant: str, given: dict[str, Any]) -> Limits:
    try:
        return Limits(**given)
    except (ValueError, TypeError) as error:
        raise ValueError(f"tenant {tenant!r}: {error}") from error
