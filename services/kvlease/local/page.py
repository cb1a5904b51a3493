"""What an engine or a gateway says over HTTP: whether it is well, its counters, an answer."""

import json
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

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
    return json.loads(_read(url, json.dumps(body).encode(), timeout=timeout))


def _read(url: str, body: bytes | None = None, *, timeout: float = _TIMEOUT) -> str:
    headers = {"Content-Type": "application/json"} if body else {}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - an address of our own making
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            return str(answer.read(), "utf-8")
    except HTTPException as error:
        raise OSError(f"no HTTP answer from {url}") from error
