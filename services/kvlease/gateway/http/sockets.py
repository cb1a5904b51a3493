"""What every TCP connection is told."""

import asyncio
import socket

# A peer that vanished without a word is noticed within half a minute.
_OPTIONS = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Has the kernel probe the peer, as far as it knows how."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family == getattr(socket, "AF_UNIX", None):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
