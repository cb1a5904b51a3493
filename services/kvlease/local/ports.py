"""Ports for processes that are told theirs before they start, and keep them over restarts."""

import random
import socket

_RANGE = range(21_000, 32_000)  # below the ephemeral ports, so that no outgoing connection takes one meanwhile


def free(count: int, *, host: str = "127.0.0.1") -> list[int]:
    """Distinct ports on which nobody listens now."""
    found: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if len(found) == count:
            break
        if _is_free(host, port):
            found.append(port)
    return found


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
