"""Refusals in OpenAI's shape."""

from http import HTTPStatus

import msgspec

from kvlease.gateway.http.message import JSON, Headers

_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}


class ApiError(Exception):
    """A request that is answered with an error. The message is for the caller of the API."""

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
        allow: str | None = None,
    ) -> None:
        """Keeps what is told: OpenAI's *code*, the *param* at fault, seconds before another try, methods to use."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after = retry_after
        self.allow = allow

    def headers(self) -> Headers:
        """Returns the headers of the answer."""
        headers = [JSON]
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(self.retry_after))))
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.allow is not None:
            headers.append((b"allow", self.allow.encode()))
        return headers

    def body(self) -> bytes:
        """Returns the body of the answer."""
        server = self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        kind = _TYPES.get(self.status, "server_error" if server else "invalid_request_error")
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})


def bad_request(message: str, *, param: str | None = None) -> ApiError:
    """Returns a 400."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, param=param)


def model_not_found(model: str) -> ApiError:
    """Returns OpenAI's 404 for a model that nobody serves."""
    message = f"The model `{model[:256]}` does not exist: no engine serves it"
    return ApiError(HTTPStatus.NOT_FOUND, message, code="model_not_found", param="model")


def unavailable(message: str, *, retry_after: float = 1.0) -> ApiError:
    """Returns a 503 that says when to try again."""
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, message, code="unavailable", retry_after=retry_after)
