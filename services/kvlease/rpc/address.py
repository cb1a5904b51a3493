"""Listen addresses: "host:port" (port 0: any free one) or "unix:path"."""

import ipaddress


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
    """Raises ValueError for what is no listen address; gRPC would bind something else without a word."""
    if address.startswith("unix:") and len(address) > len("unix:"):
        return
    port = address.rpartition(":")[2]
    if not _host(address) or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the highest port
        raise ValueError(f'no listen address: {address!r}; give "host:port" or "unix:path"')


def _host(address: str) -> str:
    return address.rpartition(":")[0]
