"""Addresses of services, checked at the start: where one listens, and whom it calls."""

import ipaddress
from urllib.parse import urlsplit

from kvlease.client import address as calling


def with_port(address: str, port: int) -> str:
    """Returns the address as clients dial it, once the port is known."""
    if address.startswith("unix:"):
        return address
    return f"{_host(address)}:{port}"


def is_local(address: str) -> bool:
    """Tells whether only this machine can reach the address; a name other than localhost counts as not."""
    if address.startswith("unix:"):
        return True
    host = _host(address).strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check(address: str) -> None:
    """Raises ValueError for what is no listen address; gRPC would bind something else without a word.

    One is "host:port" (port 0: any free one) or "unix:path".
    """
    if address.startswith("unix:") and len(address) > len("unix:"):
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the highest port
        raise ValueError(f'no listen address: {address!r}; give "host:port" or "unix:path"')


def check_called(**addresses: str) -> None:
    """Raises ValueError for what cannot be called, which begins with its name."""
    for name, address in addresses.items():
        try:
            calling.check(address)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error


def check_url(name: str, url: str) -> None:
    """Raises ValueError, which begins with the *name*, for a URL without a host, or with a port that is none."""
    try:
        parts = urlsplit(url)
        usable = parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"{name}: {url!r} is no URL with a host")


def _host(address: str) -> str:
    return address.rpartition(":")[0]
