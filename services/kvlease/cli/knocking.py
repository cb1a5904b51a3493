"""Whether anything listens at an address, whatever it speaks."""

import socket


def listens(address: str, timeout: float) -> bool:
    """Tries a bare connection to "host:port" for *timeout* seconds. False for addresses of other kinds, too."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout).close()
    except (OSError, ValueError):  # ValueError: it has no port, or is a list or a path
        return False
    return True
