"""Connections to engines."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kvlease.gateway.http.answer import Answer, Lost, Unreachable, UpstreamError
from kvlease.gateway.http.pool import Pool
from tests.support.clock import FakeClock
from tests.support.openai_engine import FakeEngine, drop

PATH = b"/v1/completions"


class Asking:
    """A pool, an engine, and the clock of the pool."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.pool = Pool(clock=self.clock, silence_timeout=5.0)
        self.engine = FakeEngine()

    async def ask(self) -> Answer:
        return await self.pool.post(self.engine.url, PATH, [], [b"{", b"}"], peer="engine")

    async def served(self) -> Answer:
        answer = await self.ask()
        await answer.read()
        return answer


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    made = Asking()
    await made.engine.start()
    yield made
    made.pool.close()
    await made.engine.stop()


async def test_a_connection_is_kept_for_the_next_request(asking: Asking) -> None:
    for _ in range(3):
        await asking.served()

    assert asking.engine.connections == 1


async def test_requests_at_the_same_time_have_connections_of_their_own(asking: Asking) -> None:
    await asyncio.gather(*(asking.served() for _ in range(3)))

    assert asking.engine.connections == 3


async def test_a_connection_is_not_used_when_the_engine_may_be_closing_it(asking: Asking) -> None:
    """vLLM closes after five seconds."""
    await asking.served()
    asking.clock.advance(4.5)

    await asking.served()

    assert asking.engine.connections == 2


async def test_idle_connections_are_closed(asking: Asking) -> None:
    await asking.served()
    asking.clock.advance(4.5)

    asking.pool.sweep()

    async with asyncio.timeout(5):
        await asking.engine.nobody.wait()


async def test_a_request_on_a_connection_that_was_closed_meanwhile_is_sent_again(asking: Asking) -> None:
    await asking.served()
    asking.engine.next(drop)

    assert (await asking.served()).status == 200
    assert len(asking.engine.received) == 2 + 1


async def test_a_request_on_a_new_connection_is_not_sent_twice(asking: Asking) -> None:
    asking.engine.next(drop)

    with pytest.raises(Lost):
        await asking.ask()

    assert len(asking.engine.received) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nowhere", "http://no.such.host.invalid", "http://a..b:1"])
async def test_nobody_there_is_told(asking: Asking, url: str) -> None:
    with pytest.raises(Unreachable):
        await asking.pool.post(url, PATH, [], [], peer="x")


async def test_an_answer_that_breaks_off_is_lost(asking: Asking) -> None:
    async def half(_: Any, wire: Any) -> None:
        await wire.begin_stream()
        await wire.piece(b"half")
        await drop(_, wire)

    asking.engine.next(half)

    with pytest.raises(Lost):
        await (await asking.ask()).read()


async def test_what_is_no_http_is_lost(asking: Asking) -> None:
    async def nonsense(_: Any, wire: Any) -> None:
        wire._writer.write(b"220 smtp ready\r\n")

    asking.engine.next(nonsense)

    with pytest.raises(Lost):
        await asking.ask()


async def test_an_interim_answer_is_skipped(asking: Asking) -> None:
    async def early(_: Any, wire: Any) -> None:
        wire._writer.write(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        await wire.json(200, {})

    asking.engine.next(early)

    assert (await asking.ask()).status == 200


async def test_a_cancelled_request_closes_its_connection(asking: Asking) -> None:
    asking.engine.gate.clear()
    task = asyncio.create_task(asking.ask())
    received = await asking.engine.request()

    task.cancel()

    async with asyncio.timeout(5):
        await received.left.wait()


async def test_an_engine_that_is_silent_for_too_long_is_given_up(asking: Asking) -> None:
    asking.engine.gate.clear()
    task = asyncio.create_task(asking.ask())
    await asking.engine.request()
    asking.pool.sweep()
    asking.clock.advance(5.1)

    asking.pool.sweep()

    with pytest.raises(Lost, match="silent"):
        await task


async def test_an_engine_that_is_held_back_is_not_silent(asking: Asking) -> None:
    async def slow(_: Any, wire: Any) -> None:
        await wire.begin_stream()
        await asyncio.Event().wait()

    asking.engine.next(slow)
    answer = await asking.ask()
    answer.pause()
    asking.pool.sweep()
    asking.clock.advance(5.1)

    asking.pool.sweep()

    assert not answer.done.done()


async def test_only_what_waits_for_an_engine_that_is_gone_fails(asking: Asking) -> None:
    asking.engine.gate.clear()
    tasks = [asyncio.create_task(asking.ask()) for _ in range(2)]
    await asking.engine.request(2)

    asking.pool.forsake("another")
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    asking.pool.forsake("engine")

    assert all(isinstance(each, UpstreamError) for each in await asyncio.gather(*tasks, return_exceptions=True))
