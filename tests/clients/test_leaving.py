"""An answer that is left before its end is taken back, and then nobody works for it any more."""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator

import pytest

from kvlease.client import aio, chat, chat_sync, sync
from kvlease.client.conversation import engines_of
from kvlease.client.errors import ClientClosed
from kvlease.client.testing import FakeRegistry, FakeRouter
from kvlease.client.types import TicketState
from tests.clients.engines import MESSAGES, Stack, running
from tests.support.openai_engine import MODEL, Received, Wire, event


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """Engines whose first answers have a beginning and no end."""
    async with running() as stack:
        stack.decode.next(*[without_end] * 3)
        yield stack


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[aio.Client]:
    async with stack.client() as client:
        yield client


async def without_end(_: Received, wire: Wire) -> None:
    await wire.begin_stream()
    await wire.piece(event(True, 0, {"content": "Hel"}))
    await asyncio.Event().wait()


def of_threads(stack: Stack) -> sync.Client:
    return sync.Client(registry=stack.registry.address, router=stack.router.address)


async def states(client: aio.Client) -> list[TicketState]:
    return [ticket.state for ticket in await client.list_tickets(conversation_id="c")]


async def was_taken_back(stack: Stack, times: int = 1) -> None:
    assert len(await stack.called("CancelTicket", times)) == times
    for received in stack.decode.received:
        await received.left.wait()


async def test_a_loop_that_is_left_takes_the_turn_back_at_once(client: aio.Client, stack: Stack) -> None:
    async with client.conversation("c") as conversation:
        async for _ in conversation.chat(MESSAGES, model=MODEL):
            break

        await was_taken_back(stack)


async def test_leaving_the_conversation_takes_back_what_is_not_over(client: aio.Client, stack: Stack) -> None:
    async with client.conversation("c") as conversation:
        answer = conversation.chat(MESSAGES, model=MODEL)
        await anext(answer)

    assert await states(client) == [TicketState.CANCELLED]
    await was_taken_back(stack)
    with pytest.raises(ClientClosed, match="taken back"):
        await anext(answer)


async def test_a_conversation_is_left_once_the_router_has_heard_of_loops_that_were_left(
    client: aio.Client, stack: Stack
) -> None:
    async with client.conversation("c", end_on_exit=True) as conversation:
        async for _ in conversation.chat(MESSAGES, model=MODEL):
            break

    assert stack.router.wait_for("CancelTicket", 1, timeout=0.0)


async def test_a_thread_leaves_its_conversation_once_the_router_has_heard_too(stack: Stack) -> None:
    def leave(client: sync.Client) -> bool:
        with client.conversation("c") as conversation:
            for _ in conversation.chat(MESSAGES, model=MODEL):
                break
        return stack.router.wait_for("CancelTicket", 1, timeout=0.0)

    with of_threads(stack) as client:
        assert await asyncio.to_thread(leave, client)


async def test_an_error_takes_the_turn_back_too(client: aio.Client, stack: Stack) -> None:
    async def fail() -> None:
        async with client.conversation("c") as conversation:
            answer = conversation.chat(MESSAGES, model=MODEL)
            async for _ in answer:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    assert await states(client) == [TicketState.CANCELLED]
    await was_taken_back(stack)


async def test_the_same_conversation_held_elsewhere_goes_on(client: aio.Client) -> None:
    async with client.conversation("c") as outer:
        answer = outer.chat(MESSAGES, model=MODEL)
        await anext(answer)
        async with client.conversation("c"):
            pass

        assert await states(client) == [TicketState.ROUTED]


async def test_an_answer_is_a_block_of_its_own(client: aio.Client) -> None:
    async with client.conversation("c") as conversation:
        async with conversation.chat(MESSAGES, model=MODEL) as answer:
            await anext(answer)

        assert await states(client) == [TicketState.CANCELLED]


async def test_an_answer_may_be_closed_while_it_is_read(client: aio.Client, stack: Stack) -> None:
    async with client.conversation("c") as conversation:
        answer = conversation.chat(MESSAGES, model=MODEL)
        await anext(answer)
        reading = asyncio.ensure_future(anext(answer))
        await asyncio.sleep(0)

        await answer.aclose()

        with pytest.raises(ClientClosed, match="taken back"):
            await reading
    await was_taken_back(stack)


async def test_what_is_over_is_not_taken_back(client: aio.Client, stack: Stack) -> None:
    stack.decode.forget()
    async with client.conversation("c") as conversation, conversation.chat(MESSAGES, model=MODEL) as answer:
        assert [chunk.text async for chunk in answer]

    assert await states(client) == [TicketState.COMPLETED]
    with pytest.raises(StopAsyncIteration):
        await anext(answer)


async def test_what_was_not_begun_is_not_begun_after_it_was_closed(client: aio.Client, stack: Stack) -> None:
    async with client.conversation("c") as conversation, conversation.chat(MESSAGES, model=MODEL) as answer:
        pass

    with pytest.raises(ClientClosed):
        await anext(answer)
    assert not stack.decode.received


async def test_a_thread_that_leaves_its_loop_takes_the_turn_back(stack: Stack) -> None:
    def leave() -> None:
        with of_threads(stack) as client, client.conversation("c") as conversation:
            for _ in conversation.chat(MESSAGES, model=MODEL):
                break
            assert stack.router.wait_for("CancelTicket", 1)

    await asyncio.to_thread(leave)
    await was_taken_back(stack)


async def test_a_thread_that_leaves_its_conversation_takes_the_turn_back(stack: Stack) -> None:
    def leave(client: sync.Client) -> None:
        with client.conversation("c") as conversation:
            answer = conversation.chat(MESSAGES, model=MODEL)
            next(answer)
        assert [ticket.state for ticket in client.list_tickets()] == [TicketState.CANCELLED]
        with pytest.raises(ClientClosed, match="taken back"):
            next(answer)
        with client.conversation("c") as conversation, conversation.chat(MESSAGES, model=MODEL) as answer:
            next(answer)
        assert [ticket.state for ticket in client.list_tickets()] == [TicketState.CANCELLED] * 2

    with of_threads(stack) as client:
        await asyncio.to_thread(leave, client)
    await was_taken_back(stack, times=2)


async def test_a_thread_may_stop_what_another_one_reads(stack: Stack) -> None:
    with of_threads(stack) as client, client.conversation("c") as conversation:
        answer = conversation.chat(MESSAGES, model=MODEL)
        await asyncio.to_thread(next, answer)
        reading = asyncio.create_task(asyncio.to_thread(next, answer))
        await asyncio.sleep(0)

        await asyncio.to_thread(answer.close)

        with pytest.raises(ClientClosed, match="taken back"):
            await reading


async def test_closing_after_answers_that_were_left_is_silent(stack: Stack, caplog: pytest.LogCaptureFixture) -> None:
    def leave() -> None:
        with of_threads(stack) as client, client.conversation("c") as conversation:
            answers = [conversation.chat(MESSAGES, model=MODEL) for _ in range(2)]
            for answer in answers:
                next(answer)
            del answers, answer
            gc.collect()

    await asyncio.to_thread(leave)

    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
    await was_taken_back(stack, times=2)


def test_a_closed_client_answers_nothing_and_starts_nothing(registry: FakeRegistry, router: FakeRouter) -> None:
    client = sync.Client(registry=registry.address, router=router.address)
    with client.conversation("c") as conversation:
        answer = conversation.chat(MESSAGES, model="model")
        client.close()
        client.close()

        with pytest.raises(ClientClosed):
            next(answer)
        answer.close()

    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kvlease-")]


def test_threads_that_begin_at_once_share_what_is_opened(
    registry: FakeRegistry, router: FakeRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[chat.Engines] = []

    def slowly(of: aio.Client) -> chat.Engines:
        time.sleep(0.05)
        made.append(engines_of(of))
        return made[-1]

    monkeypatch.setattr(chat_sync, "engines_of", slowly)
    with sync.Client(registry=registry.address, router=router.address) as client:

        def begin() -> None:
            with client.conversation("c") as conversation:
                conversation.chat(MESSAGES, model="model").close()

        threads = [threading.Thread(target=begin) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(made) == 1


def test_threads_may_close_a_client_at_once(registry: FakeRegistry, router: FakeRouter) -> None:
    raised: list[BaseException] = []
    for _ in range(5):
        client = sync.Client(registry=registry.address, router=router.address)
        with client.conversation("c") as conversation:
            conversation.chat(MESSAGES, model="model").close()
        ready = threading.Barrier(2)

        def close(client: sync.Client = client, ready: threading.Barrier = ready) -> None:
            ready.wait()
            try:
                client.close()
            except BaseException as error:  # noqa: BLE001 - any is looked at
                raised.append(error)

        threads = [threading.Thread(target=close) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert raised == []


def test_a_block_is_entered_once(registry: FakeRegistry) -> None:
    with sync.Client(registry=registry.address) as client:
        block = client.conversation("c")
        with block:
            pass

        with pytest.raises(RuntimeError, match="holds its conversation once"):
            block.__enter__()


async def test_an_async_block_is_entered_once(registry: FakeRegistry) -> None:
    async with aio.Client(registry=registry.address) as client:
        block = client.conversation("c")
        async with block:
            pass

        with pytest.raises(RuntimeError, match="holds its conversation once"):
            await block.__aenter__()
