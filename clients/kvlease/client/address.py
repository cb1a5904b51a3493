"""Addresses that are called: `host:port`, several of `ip:port` with commas between, or a target of gRPC's own."""

import ipaddress
from urllib.parse import urlsplit

SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "vsock:", "xds:")
_HIGHEST_PORT = 65535


def check(address: str) -> None:
    """Raises ValueError for what cannot be called.

    gRPC says nothing of it: it would call port 443 of a host without a port, and nobody at all where a list has names.
    """
    if address.startswith(SCHEMES):
        return
    hosts = [_host(address, part) for part in address.split(",")]
    if len(hosts) > 1 and len({_version(address, host) for host in hosts}) > 1:
        raise ValueError(f"{address!r} mixes IPv4 and IPv6, which gRPC does not take")


def check_url(url: str) -> None:
    """Raises ValueError for a URL at which no HTTP server can be."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")  # as whoever connects has it, who could not otherwise
        usable = parts.scheme in ("http", "https") and host and parts.port != 0
    except ValueError:  # a port that is none, or a host that is no name
        usable = False
    if not usable:
        raise ValueError(f"must be like http://host:port, not {url!r}")


def _host(address: str, part: str) -> str:
    host, _, port = part.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    named = bare and not set(host) & set(" /@") and (host != bare or ":" not in host)
    if not named or not port.isdecimal() or not 0 < int(port) <= _HIGHEST_PORT:
        raise ValueError(f'{address!r} cannot be called: write "host:port", or "ip:port,ip:port"')
    return bare


def _version(address: str, host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        raise ValueError(f"{address!r} is a list, where only IP addresses can stand, and {host!r} is none") from None
