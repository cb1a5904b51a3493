"""Where an engine's HTTP server is."""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """A base URL, taken apart."""

    host: str
    port: int
    tls: bool
    authority: bytes
    """For the Host header."""
    prefix: bytes
    """Path of the base URL, without a slash at its end."""


@lru_cache(maxsize=1024)
def origin(url: str) -> Origin:
    """Takes a base URL such as "http://10.0.0.7:8000" apart. Raises ValueError for anything else."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"no http or https URL: {url!r}")
    return Origin(
        parts.hostname,
        parts.port or _PORTS[parts.scheme],
        parts.scheme == "https",
        parts.netloc.rpartition("@")[2].encode("idna" if not parts.netloc.isascii() else "ascii"),
        parts.path.rstrip("/").encode(),
    )
