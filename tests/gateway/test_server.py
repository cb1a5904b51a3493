"""HTTP as clients speak it, to the letter and not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus

import pytest
from structlog.testing import capture_logs

from kvlease.gateway.app import refuse
from kvlease.gateway.http.limits import Limits
from kvlease.gateway.http.message import Request
from kvlease.gateway.http.reply import Reply
from kvlease.gateway.http.server import Server
from tests.support.clock import FakeClock
from tests.support.raw_http import RawClient, raw_client

GET = b"GET /echo HTTP/1.1\r\nHost: h\r\n\r\n"
LIMITS = Limits(head_bytes=1000, body_bytes=1000, connections=3)


class Handler:
    """Echoes; or streams, waits, fails, by path."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.go = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, request: Request, reply: Reply) -> None:
        acts: dict[str, Callable[[Request, Reply], Awaitable[None]]] = {
            "/echo": self.echo,
            "/stream": self.stream,
            "/wait": self.wait,
            "/fault": self.fault,
            "/flood": self.flood,
        }
        await acts[request.path](request, reply)

    async def echo(self, request: Request, reply: Reply) -> None:
        reply.send(200, [(b"x-m", request.method.encode())], request.body)

    async def stream(self, _: Request, reply: Reply) -> None:
        reply.start(200, [])
        reply.write(b"ab")
        reply.end(b"c")

    async def wait(self, request: Request, reply: Reply) -> None:
        self.waiting.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise
        await self.echo(request, reply)

    async def flood(self, request: Request, reply: Reply) -> None:
        reply.start(200, [])
        for _ in range(200):
            reply.write(b"x" * 100_000)
        await self.wait(request, reply)

    async def fault(self, _: Request, __: Reply) -> None:
        raise RuntimeError("a bug")


class Serving:
    """A server, its handler, its clock and its port."""

    def __init__(self) -> None:
        self.handler = Handler()
        self.clock = FakeClock()
        self.server = Server(self.handler, refuse=refuse, limits=LIMITS, clock=self.clock)
        self.port = 0


@pytest.fixture
async def serving() -> AsyncIterator[Serving]:
    made = Serving()
    made.port = await made.server.listen("127.0.0.1", 0)
    yield made
    await made.server.drain(0.0)


@pytest.fixture
async def client(serving: Serving) -> AsyncIterator[RawClient]:
    async with raw_client(serving.port) as made:
        yield made


async def test_a_connection_serves_one_request_after_the_other(client: RawClient) -> None:
    for body in (b"one", b"", b"two"):
        await client.send(b"POST /echo HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

        status, headers, got = await client.answer()

        assert (status, got) == (200, body)
        assert "connection" not in headers
        assert headers["date"].endswith("GMT")


async def test_a_stream_is_chunked(client: RawClient) -> None:
    await client.send(b"GET /stream HTTP/1.1\r\nConnection: close\r\n\r\n")

    status, headers = await client.head()

    assert (status, headers["transfer-encoding"], headers["connection"]) == (200, "chunked", "close")
    assert await client.rest() == b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"


async def test_an_old_client_gets_a_stream_that_ends_with_the_connection(client: RawClient) -> None:
    await client.send(b"GET /stream HTTP/1.0\r\n\r\n")

    _, headers = await client.head()

    assert "transfer-encoding" not in headers
    assert await client.rest() == b"abc"


async def test_a_head_request_gets_no_body(client: RawClient) -> None:
    await client.send(b"HEAD /echo HTTP/1.1\r\n\r\n")
    assert (await client.head())[0] == 200

    await client.send(GET)
    assert (await client.answer())[1]["x-m"] == "GET"


async def test_pipelined_requests_are_not_served(client: RawClient) -> None:
    await client.send(GET + GET)

    assert (await client.answer())[1]["connection"] == "close"
    assert await client.rest() == b""


async def test_a_request_that_comes_too_early_ends_the_connection(serving: Serving, client: RawClient) -> None:
    await client.send(b"GET /wait HTTP/1.1\r\n\r\n")
    await serving.handler.waiting.wait()

    await client.send(GET)
    await asyncio.sleep(0.05)
    serving.handler.go.set()

    assert (await client.answer())[1]["connection"] == "close"
    assert await client.rest() == b""


async def test_a_body_is_sent_for_once_leave_is_given(client: RawClient) -> None:
    await client.send(b"POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert (await client.head())[0] == 100

    await client.send(b"hi")
    assert (await client.answer())[2] == b"hi"


async def test_a_body_over_the_limit_is_refused_before_it_is_sent(client: RawClient) -> None:
    await client.send(b"POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n")

    status, headers, _ = await client.answer()

    assert (status, headers["connection"]) == (413, "close")
    assert await client.rest() == b""


async def test_a_refused_client_that_goes_on_sending_can_read_why(client: RawClient) -> None:
    await client.send(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 0x400)
    for _ in range(50):
        await client.send(b"x" * 20_000)

    assert (await client.answer())[0] == 413


async def test_a_client_that_leaves_cancels_its_request(serving: Serving, client: RawClient) -> None:
    await client.send(b"GET /wait HTTP/1.1\r\n\r\n")
    await serving.handler.waiting.wait()

    client.writer.transport.abort()

    async with asyncio.timeout(5):
        await serving.handler.left.wait()


async def test_a_client_that_closes_its_half_has_left(serving: Serving, client: RawClient) -> None:
    """Nothing else would tell while an answer is waited for."""
    await client.send(b"GET /wait HTTP/1.1\r\n\r\n")
    await serving.handler.waiting.wait()

    client.writer.write_eof()

    async with asyncio.timeout(5):
        await serving.handler.left.wait()


async def test_a_fault_is_a_500_and_logged_once(client: RawClient) -> None:
    with capture_logs() as logs:
        await client.send(b"GET /fault HTTP/1.1\r\n\r\n")
        status, _, body = await client.answer()

    assert status == 500
    assert b"a bug" not in body
    assert [line["event"] for line in logs] == ["request failed"]


async def test_one_connection_too_many_is_told(serving: Serving, client: RawClient) -> None:
    await client.send(GET)
    await client.answer()
    async with raw_client(serving.port) as second, raw_client(serving.port) as third, raw_client(serving.port) as last:
        for each in (second, third):
            await each.send(GET)
            assert (await each.answer())[0] == 200

        assert (await last.answer())[0] == HTTPStatus.SERVICE_UNAVAILABLE


async def test_a_request_that_comes_too_slowly_is_timed_out(serving: Serving, client: RawClient) -> None:
    await client.send(b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n1")
    await asyncio.sleep(0.05)
    serving.clock.advance(LIMITS.read - 1)
    serving.server.sweep()
    await client.send(b"2")
    await asyncio.sleep(0.05)
    serving.clock.advance(LIMITS.read - 1)
    serving.server.sweep()

    serving.clock.advance(1)
    serving.server.sweep()

    assert (await client.answer())[0] == 408
    assert await client.rest() == b""


async def test_an_idle_connection_is_closed(serving: Serving, client: RawClient) -> None:
    await client.send(GET)
    await client.answer()

    serving.clock.advance(LIMITS.idle)
    serving.server.sweep()

    assert await client.rest() == b""


async def test_a_slow_answer_is_not_timed_out(serving: Serving, client: RawClient) -> None:
    await client.send(b"GET /wait HTTP/1.1\r\n\r\n")
    await serving.handler.waiting.wait()

    serving.clock.advance(1e6)
    serving.server.sweep()
    serving.handler.go.set()

    assert (await client.answer())[0] == 200


async def test_a_client_that_takes_nothing_of_its_answer_is_cut_off(serving: Serving, client: RawClient) -> None:
    await client.send(b"GET /flood HTTP/1.1\r\n\r\n")
    await serving.handler.waiting.wait()
    serving.server.sweep()
    assert not serving.handler.left.is_set()

    serving.clock.advance(LIMITS.stall)
    serving.server.sweep()

    async with asyncio.timeout(5):
        await serving.handler.left.wait()


async def test_draining_lets_answers_end_and_takes_no_more(serving: Serving, client: RawClient) -> None:
    await client.send(b"GET /wait HTTP/1.1\r\n\r\n")
    await serving.handler.waiting.wait()
    async with raw_client(serving.port) as idle:
        await idle.send(GET)
        await idle.answer()

        draining = asyncio.create_task(serving.server.drain(10.0))
        assert await idle.rest() == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", serving.port)
    serving.handler.go.set()

    assert (await client.answer())[1]["connection"] == "close"
    await draining


async def test_draining_ends_with_its_grace(serving: Serving, client: RawClient) -> None:
    await client.send(b"GET /wait HTTP/1.1\r\n\r\n")
    await serving.handler.waiting.wait()

    await serving.server.drain(0.0)

    assert serving.handler.left.is_set()
