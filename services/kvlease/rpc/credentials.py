"""From what a caller shows to who it is: a bearer token, or the name in its certificate.

The name is a SPIFFE id whose path is `/kvlease/ROLE`, or `/kvlease/ROLE/NAME`: for an engine the id that it alone may
speak for, for an application its tenant. NAME is percent-encoded. The trust domain says nothing more than the CA does.
"""

from functools import lru_cache
from urllib.parse import unquote, urlsplit

from kvlease.rpc.identity import (
    DEFAULT_TENANT,
    Context,
    CredentialsWrong,
    Identify,
    Identity,
    Role,
    TenantDenied,
    named_tenant,
)
from kvlease.rpc.keys import Key, Keys
from kvlease.rpc.watched import Watched

AUTHORIZATION = "authorization"
SCHEME = "bearer "
ROOT = "kvlease"
_SPIFFE_ID = "peer_spiffe_id"


def identify_by(keys: Watched[Keys] | None) -> Identify:
    """Returns what tells callers by their token, if they show one, else by their certificate."""

    def identify(context: Context) -> Identity:
        token = _token(context)
        if token:
            key = keys.get().find(token) if keys else None
            if key is None:
                raise CredentialsWrong("the bearer token is none that is known here")
            return _of_key(key, context)
        for name in (context.auth_context() or {}).get(_SPIFFE_ID, ()):
            return _of_name(name.decode("latin-1"), context)
        raise CredentialsWrong("show a bearer token, or a certificate with a SPIFFE id")

    return identify


def bearer(header: str) -> str:
    """Returns the token of an Authorization header; empty for another scheme."""
    return header[len(SCHEME) :].strip() if header[: len(SCHEME)].lower() == SCHEME else ""


@lru_cache(maxsize=4096)
def role_of(name: str) -> tuple[Role, str]:
    """Reads a SPIFFE id. Raises CredentialsWrong for one that names no caller."""
    parts = urlsplit(name)
    path = parts.path.split("/")
    try:
        _, root, role, *rest = path
        named = Role(role)
    except ValueError:
        raise CredentialsWrong(f"{name} is no id like spiffe://DOMAIN/{ROOT}/ROLE") from None
    own = unquote(rest[0]) if rest else ""
    if parts.scheme != "spiffe" or root != ROOT or len(rest) > 1 or (named is Role.APPLICATION and not own):
        raise CredentialsWrong(f"{name} is no id like spiffe://DOMAIN/{ROOT}/ROLE/NAME")
    return named, own


def _token(context: Context) -> str:
    given = [value for key, value in context.invocation_metadata() or () if key == AUTHORIZATION]
    if not given:
        return ""
    token = bearer(given[0]) if isinstance(given[0], str) else ""
    if len(given) > 1 or not token:
        raise CredentialsWrong("give one authorization, as Bearer TOKEN")
    return token


def _of_key(key: Key, context: Context) -> Identity:
    return _identity(key.role, key.tenant, key.engine, context)


def _of_name(name: str, context: Context) -> Identity:
    role, own = role_of(name)
    return _identity(role, own if role is Role.APPLICATION else "", own if role is Role.ENGINE else "", context)


def _identity(role: Role, tenant: str, engine: str, context: Context) -> Identity:
    """Applications have a tenant; all others act for the one that they name."""
    named = named_tenant(context)
    if role is Role.APPLICATION and named not in ("", tenant):
        raise TenantDenied
    return Identity(tenant or named or DEFAULT_TENANT, frozenset({role}), engine)
