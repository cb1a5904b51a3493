"""What an engine or a gateway says over HTTP: whether it is well, its counters, an answer."""

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.error import HTTPError

_TIMEOUT = 5.0  # seconds


def answers(url: str) -> bool:
    """Whether the page is there."""
    try:
        _read(url)
    except OSError:
        return False
    return True


def counters(url: str) -> dict[str, float]:
    """An engine's Prometheus samples by name, summed over their labels.

    Raises:
        OSError: the engine did not answer.
    """
    sums: dict[str, float] = {}
    for line in _read(f"{url}/metrics").splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name = series.partition("{")[0]
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def post(url: str, body: Mapping[str, Any], *, timeout: float) -> Any:
    """The answer to a JSON request.

    Raises:
        OSError: there was none, or it was an error.
    """
    with opened(url, body, timeout=timeout) as answer:
        return json.loads(answer.read())


@contextmanager
def opened(url: str, body: Mapping[str, Any] | None = None, *, timeout: float) -> Iterator[HTTPResponse]:
    """A successful answer, to be read as it comes; a body is sent as JSON.

    Raises:
        OSError: there was no answer, or it was an error.
    """
    data = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers)  # noqa: S310 - an address of our own making
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            yield answer
    except HTTPError as error:
        with error:
            raise OSError(f"{url} answered {error.code}: {error.read().decode(errors='replace')}") from error
    except HTTPException as error:
        raise OSError(f"no whole HTTP answer from {url}") from error


def _read(url: str) -> str:
    with opened(url, timeout=_TIMEOUT) as answer:
        return str(answer.read(), "utf-8")
