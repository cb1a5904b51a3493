"""Connections that are at their end before anybody was told: uvloop raises at any use of them, asyncio does not."""

import asyncio

import pytest

from kvlease.gateway.http.answer import Stale
from kvlease.gateway.http.message import Request
from kvlease.gateway.http.reply import Reply
from kvlease.gateway.http.upstream import UpstreamConnection


class GoneTransport(asyncio.Transport):
    """As uvloop's after the peer has gone, before `connection_lost`."""

    def is_closing(self) -> bool:
        return True

    def write(self, _: object) -> None:
        raise RuntimeError("the handler is closed")

    def pause_reading(self) -> None:
        raise RuntimeError("the handler is closed")


def test_what_is_written_to_a_client_that_has_gone_is_dropped() -> None:
    reply = Reply(GoneTransport(), Request("GET", "/", [], b""), version="1.1", keep_alive=True)

    reply.start(200, [])
    reply.write(b"x")
    reply.end()

    assert reply.ended


async def test_an_engine_that_has_gone_is_asked_over_another_connection() -> None:
    connection = UpstreamConnection(lambda _: None)
    connection.connection_made(GoneTransport())

    with pytest.raises(Stale):
        await connection.ask(b"GET / HTTP/1.1\r\n\r\n", "engine")
    connection.pause()
