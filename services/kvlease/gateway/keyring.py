"""Tenants by the API keys that their requests show."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from kvlease.gateway.errors import ApiError
from kvlease.gateway.http.message import Headers, Request
from kvlease.gateway.http.reader import Refused
from kvlease.rpc import Role
from kvlease.rpc.credentials import bearer
from kvlease.rpc.identity import DEFAULT_TENANT, MAX_TENANT_BYTES, TENANT_KEY
from kvlease.rpc.keys import Key, Keys
from kvlease.rpc.limits import Meter, OverLimit
from kvlease.rpc.watched import Watched


class Keyring:
    """A Tenancy. Lets in applications, each as its tenant, and operators, who may name one."""

    def __init__(self, keys: Watched[Keys], meter: Meter) -> None:
        self._keys = keys
        self._meter = meter

    def __call__(self, request: Request) -> str:
        """Returns the tenant. Raises ApiError: 401 without a key that is known, 403, 413 and 429 with one."""
        key = self._key(request.headers)
        if key.role is Role.OPERATOR:
            return _named(request)
        if key.role is not Role.APPLICATION:
            raise ApiError(HTTPStatus.FORBIDDEN, f"this is the key of a {key.role.value}, not of an application")
        with _told():
            self._meter.take(key.tenant, len(request.body))
        return key.tenant

    def check(self, headers: Headers) -> None:
        """Raises Refused for a stranger, before a long body is taken from it."""
        try:
            self._key(headers)
        except ApiError as error:
            raise Refused(error.status, str(error)) from error

    @contextmanager
    def running(self, tenant: str) -> Iterator[None]:
        """Counts a request as running until left. Raises ApiError: 429."""
        with _told(), self._meter.running(tenant):
            yield

    def _key(self, headers: Headers) -> Key:
        header = next((value for name, value in headers if name == b"authorization"), b"")
        token = bearer(header.decode("latin-1"))
        if not token:
            raise ApiError(HTTPStatus.UNAUTHORIZED, "you did not provide an API key: Authorization: Bearer KEY")
        key = self._keys.get().find(token)
        if key is None:
            raise ApiError(HTTPStatus.UNAUTHORIZED, "incorrect API key provided", code="invalid_api_key")
        return key


@contextmanager
def _told() -> Iterator[None]:
    """Words a limit as OpenAI does."""
    try:
        yield
    except OverLimit as error:
        if error.retry_after is None:
            raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from error
        raise ApiError(
            HTTPStatus.TOO_MANY_REQUESTS, str(error), code="rate_limit_exceeded", retry_after=error.retry_after
        ) from error


def _named(request: Request) -> str:
    tenant = (request.header(TENANT_KEY.encode()) or DEFAULT_TENANT.encode()).decode("latin-1")
    if len(tenant) > MAX_TENANT_BYTES or not (tenant.isascii() and tenant.isprintable()):
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{TENANT_KEY} must be printable ASCII, at most {MAX_TENANT_BYTES}")
    return tenant
