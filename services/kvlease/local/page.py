"""Reads what an engine tells over HTTP: whether it is well, and its counters."""

import urllib.request
from http.client import HTTPException

_TIMEOUT = 5.0  # seconds


def read(url: str) -> str:
    """The body of a successful answer.

    Raises:
        OSError: there was none.
    """
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310 - an address of our own making
            return str(answer.read(), "utf-8")
    except HTTPException as error:
        raise OSError(f"no HTTP answer from {url}") from error


def counters(url: str) -> dict[str, float]:
    """An engine's Prometheus samples by name, summed over their labels.

    Raises:
        OSError: the engine did not answer.
    """
    sums: dict[str, float] = {}
    for line in read(f"{url}/metrics").splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name = series.partition("{")[0]
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums
