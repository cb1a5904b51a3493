"""One connection to an engine, where the order of events within a moment matters."""

import asyncio

import pytest

from kvlease.gateway.http.upstream import UpstreamConnection

WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d"


class FakeTransport(asyncio.Transport):
    """Takes everything and sends nothing."""

    aborted = False

    def write(self, data: object) -> None: ...

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()


@pytest.fixture
def connection(transport: FakeTransport) -> UpstreamConnection:
    made = UpstreamConnection(lambda _: None)
    made.connection_made(transport)
    return made


async def test_the_next_request_may_begin_before_the_last_one_hears_of_its_answer(
    connection: UpstreamConnection,
) -> None:
    first = asyncio.create_task(connection.ask(b"", None))
    await asyncio.sleep(0)
    connection.data_received(WHOLE % 1)
    second = connection.ask(b"", None)
    second.send(None)  # runs before the first task wakes up

    assert await (await first).read() == b"1"
    connection.data_received(WHOLE % 2)

    with pytest.raises(StopIteration) as returned:
        second.send(None)
    assert await returned.value.value.read() == b"2"


async def test_one_that_is_cancelled_with_its_answer_there_leaves_the_next_request_alone(
    connection: UpstreamConnection, transport: FakeTransport
) -> None:
    first = asyncio.create_task(connection.ask(b"", None))
    await asyncio.sleep(0)
    connection.data_received(WHOLE % 1)
    first.cancel()

    with pytest.raises(asyncio.CancelledError):
        await first

    assert not transport.aborted


async def test_one_that_is_cancelled_in_the_midst_of_its_answer_closes(
    connection: UpstreamConnection, transport: FakeTransport
) -> None:
    first = asyncio.create_task(connection.ask(b"", None))
    await asyncio.sleep(0)
    connection.data_received((WHOLE % 1)[:-1])
    first.cancel()

    with pytest.raises(asyncio.CancelledError):
        await first

    assert transport.aborted
