"""A turn without a gateway: both legs, one ticket, and what happens when something fails."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

import kvlease.client
from kvlease.client import aio, sync
from kvlease.client.chat import Answer
from kvlease.client.errors import (
    AnswerBroken,
    DeadlineExceeded,
    EngineRefused,
    EngineUnreachable,
    ModelNotFound,
    NotAnswered,
    Unavailable,
)
from kvlease.client.types import EngineRole
from kvlease.v1 import lease_pb2, router_pb2
from tests.clients.engines import MESSAGES, Stack, running
from tests.support.openai_engine import MODEL, Drop, Received, Wire, drop, event, events, pieces, told


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    async with running() as stack:
        yield stack


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[aio.Client]:
    async with stack.client() as client:
        yield client


async def ask(client: aio.Client, **options: Any) -> Answer:
    """Asks once in conversation "c", and waits for the whole answer."""
    async with client.conversation("c") as conversation:
        answer = conversation.chat(MESSAGES, model=MODEL, **options)
        async for _ in answer:
            pass
        return answer


async def read(answer: Answer) -> None:
    async for _ in answer:
        pass


async def renewed_again(stack: Stack) -> None:
    """Waits until a renewal that begins from now on has been answered: then the next one comes."""
    asked = len([call for call in stack.registry.calls if call.method == "RenewLeases"])
    assert await asyncio.to_thread(stack.registry.wait_for, "RenewLeases", asked + 2)


async def test_an_answer_comes_in_chunks_and_is_gathered(client: aio.Client) -> None:
    async with client.conversation("c") as conversation:
        answer = conversation.chat(MESSAGES, model=MODEL, stream_options={"include_usage": True})

        said = [chunk.text async for chunk in answer]

    assert "".join(said) == answer.text == "Hello from afar"
    assert answer.message == {"role": "assistant", "content": "Hello from afar"}
    assert answer.finish_reason == "stop"
    assert answer.usage
    assert answer.usage["completion_tokens"] == 3


async def test_a_message_that_has_not_come_is_no_message(client: aio.Client, stack: Stack) -> None:
    with (
        sync.Client(registry=stack.registry.address, router=stack.router.address) as of_threads,
        of_threads.conversation("c") as asked,
        pytest.raises(NotAnswered, match="iterate over the answer"),
    ):
        _ = asked.chat(MESSAGES, model=MODEL).message
    async with client.conversation("c") as conversation:
        answer = conversation.chat(MESSAGES, model=MODEL)
        with pytest.raises(NotAnswered, match="iterate over the answer"):
            _ = answer.message
        assert (answer.text, answer.finish_reason) == ("", None)

        stack.decode.next(told(400))
        with pytest.raises(EngineRefused):
            await read(answer)
        with pytest.raises(NotAnswered):
            _ = answer.message


async def test_both_legs_carry_the_same_ticket_and_ids_of_their_own(client: aio.Client, stack: Stack) -> None:
    await ask(client, max_tokens=7, stop=["x"], headers={"authorization": "Bearer a"})

    decode, prefill = await stack.decode.request(), await stack.prefill.request()
    assert decode.ticket
    assert decode.ticket == prefill.ticket
    assert decode.headers["x-request-id"] != prefill.headers["x-request-id"]
    assert decode.headers["authorization"] == prefill.headers["authorization"] == "Bearer a"
    assert (decode.body["stream"], decode.body["max_tokens"], decode.body["stop"]) == (True, 7, ["x"])
    assert (prefill.body["stream"], prefill.body["max_tokens"]) == (False, 1)
    assert "stop" not in prefill.body


async def test_both_legs_go_to_the_data_parallel_ranks_that_were_chosen(client: aio.Client, stack: Stack) -> None:
    for name, rank in (("prefill", 0), ("decode", 3)):
        engine = stack.registry.engines[name].engine
        engine.data_parallel_size, engine.data_parallel_rank = 4, rank

    await ask(client)

    assert (await stack.prefill.request()).headers["x-data-parallel-rank"] == "0"
    assert (await stack.decode.request()).headers["x-data-parallel-rank"] == "3"


async def test_engines_without_ranks_are_told_none(client: aio.Client, stack: Stack) -> None:
    await ask(client)

    assert "x-data-parallel-rank" not in (await stack.decode.request()).headers


async def test_a_completed_turn_is_told_before_its_last_chunk(client: aio.Client, stack: Stack) -> None:
    async with client.conversation("c") as conversation:
        async for chunk in conversation.chat(MESSAGES, model=MODEL):
            if chunk.choices[0]["finish_reason"]:
                assert [call.request.stop_reason for call in stack.router.calls if call.method == "CompleteTicket"] == [
                    lease_pb2.STOP_REASON_ANSWERED
                ]
    assert len(await client.list_leases(conversation_id="c")) == 1


async def test_a_conversation_is_held_soon_after_its_first_turn(client: aio.Client, stack: Stack) -> None:
    async with client.conversation("c") as conversation:
        assert not conversation.held
        asked = len([call for call in stack.registry.calls if call.method == "RenewLeases"])
        async for _ in conversation.chat(MESSAGES, model=MODEL):
            pass

        assert await asyncio.to_thread(stack.registry.wait_for, "RenewLeases", asked + 1)


async def test_the_next_turn_says_what_was_reused(client: aio.Client) -> None:
    first, second = await ask(client), await ask(client)

    assert first.report
    assert second.report
    assert first.report.reused_tokens == 0
    assert second.report.reused_tokens > 0


@pytest.mark.parametrize("fault", [drop, pieces(event(True, 0, {"content": "Hel"}), then=Drop)])
async def test_a_conversation_whose_engine_broke_off_is_not_held_until_the_next_answer(
    client: aio.Client, stack: Stack, fault: Any
) -> None:
    async with client.conversation("c", ttl=2.1) as conversation:
        await read(conversation.chat(MESSAGES, model=MODEL))
        await renewed_again(stack)
        assert conversation.held
        stack.decode.next(*[fault] * 3)
        with pytest.raises((EngineUnreachable, AnswerBroken)):
            await read(conversation.chat(MESSAGES, model=MODEL))

        assert not conversation.held
        await renewed_again(stack)  # the registry does not know yet that the engine is gone
        assert not conversation.held

        stack.decode.forget()
        await read(conversation.chat(MESSAGES, model=MODEL))
        await renewed_again(stack)
        assert conversation.held


async def test_tool_calls_are_put_together(client: aio.Client, stack: Stack) -> None:
    call = {"index": 0, "id": "1", "type": "function", "function": {"name": "look", "arguments": ""}}
    more = {"index": 0, "function": {"arguments": '{"at": 1}'}}
    stack.decode.next(
        pieces(
            event(True, 0, {"role": "assistant", "content": None, "tool_calls": [call]}),
            event(True, 0, {"tool_calls": [more]}),
            event(True, 0, {}, "tool_calls"),
            b"data: [DONE]\n\n",
        )
    )

    answer = await ask(client)

    assert answer.message["tool_calls"] == [
        {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    ]
    (completed,) = await stack.called("CompleteTicket")
    assert isinstance(completed, router_pb2.CompleteTicketRequest)
    assert completed.stop_reason == lease_pb2.STOP_REASON_TOOLS_CALLED


@pytest.mark.parametrize("fault", [told(500), told(503), drop, pieces(b"", then=Drop), pieces(b"data: [DONE]\n\n")])
async def test_a_turn_that_said_nothing_is_tried_elsewhere(client: aio.Client, stack: Stack, fault: Any) -> None:
    stack.register("other", stack.other, EngineRole.DECODE)
    stack.decode.next(fault)

    answer = await ask(client)

    assert answer.text == "Hello from afar"
    assert len(stack.decode.received) == len(stack.other.received) == 1
    assert len(await stack.called("CancelTicket")) == 1


async def test_where_there_is_no_other_engine_the_same_is_tried_again(client: aio.Client, stack: Stack) -> None:
    stack.decode.next(drop)

    assert (await ask(client)).text == "Hello from afar"
    assert len(stack.decode.received) == 2


async def test_a_refusal_is_final_and_tells_its_status(client: aio.Client, stack: Stack) -> None:
    stack.decode.next(told(400, "too long"))

    with pytest.raises(EngineRefused, match="too long") as refused:
        await ask(client)

    assert refused.value.status == 400
    assert len(stack.decode.received) == 1
    assert len(await stack.called("CancelTicket")) == 1


async def test_an_answer_that_breaks_off_is_not_begun_again(client: aio.Client, stack: Stack) -> None:
    stack.decode.next(pieces(event(True, 0, {"content": "Hel"}), then=Drop))

    with pytest.raises(AnswerBroken):
        await ask(client)

    assert len(stack.decode.received) == 1
    assert not await client.list_leases(conversation_id="c")


async def test_an_error_in_the_stream_is_raised(client: aio.Client, stack: Stack) -> None:
    stack.decode.next(pieces(event(True, 0, {"content": "Hel"}), b'data: {"error": {"message": "out of luck"}}\n\n'))

    with pytest.raises(AnswerBroken, match="out of luck"):
        await ask(client)


async def test_engines_that_are_gone_are_an_error_at_last(client: aio.Client, stack: Stack) -> None:
    await stack.decode.stop()

    with pytest.raises(EngineUnreachable):
        await ask(client)


async def test_when_prefill_fails_decode_goes_on_alone(client: aio.Client, stack: Stack) -> None:
    stack.prefill.next(told(500))
    stack.decode.gate.clear()
    asking = asyncio.create_task(ask(client))

    (cancelled,) = await stack.called("CancelTicket")
    stack.decode.gate.set()

    assert isinstance(cancelled, router_pb2.CancelTicketRequest)
    assert cancelled.leg == router_pb2.LEG_PREFILL
    assert (await asking).text == "Hello from afar"


async def test_whoever_leaves_early_takes_the_turn_back(client: aio.Client, stack: Stack) -> None:
    async def slowly(_: Received, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.piece(event(True, 0, {"content": "Hel"}))
        await asyncio.Event().wait()

    stack.decode.next(slowly)
    async with client.conversation("c") as conversation:
        answer = conversation.chat(MESSAGES, model=MODEL)
        await anext(answer)
        await answer.aclose()

    assert len(await stack.called("CancelTicket")) == 1
    await stack.decode.received[0].left.wait()


async def test_closing_the_client_takes_back_what_nobody_reads_to_its_end(stack: Stack) -> None:
    async with stack.client() as client, client.conversation("c") as conversation:
        answer = conversation.chat(MESSAGES, model=MODEL)
        await anext(answer)

    assert len(await stack.called("CancelTicket")) == 1


async def test_connections_are_kept_for_the_next_turn(client: aio.Client, stack: Stack) -> None:
    await ask(client)
    await ask(client)

    assert [received.connection for received in stack.decode.received] == [1, 1]


async def test_a_connection_that_breaks_after_the_last_word_breaks_nothing(client: aio.Client, stack: Stack) -> None:
    stack.decode.next(pieces(*events({}, ["Hello"], chat=True), then=Drop))

    assert (await ask(client)).text == "Hello"


async def test_a_deadline_ends_the_turn(client: aio.Client, stack: Stack) -> None:
    stack.decode.gate.clear()

    with pytest.raises(DeadlineExceeded):
        await ask(client, timeout=0.2)

    assert len(await stack.called("CancelTicket")) == 1


async def test_without_a_router_a_known_engine_computes_the_prompt(client: aio.Client, stack: Stack) -> None:
    await ask(client)
    stack.router.stop()

    answer = await ask(client)

    assert answer.text == "Hello from afar"
    assert answer.report is None
    assert stack.decode.received[-1].ticket is None


async def test_without_a_router_and_an_engine_that_is_known_it_fails(client: aio.Client, stack: Stack) -> None:
    stack.router.stop()

    with pytest.raises((Unavailable, DeadlineExceeded)):
        await ask(client, timeout=0.5)


async def test_a_model_that_nobody_serves_is_told(client: aio.Client) -> None:
    async with client.conversation("c") as conversation:
        with pytest.raises(ModelNotFound):
            await anext(conversation.chat(MESSAGES, model="other"))


@pytest.mark.parametrize("option", [{"prompt_logprobs": 1}, {"use_beam_search": True}, {"truncate_prompt_tokens": -1}])
async def test_what_prefill_is_no_use_for_goes_to_decode_alone(
    client: aio.Client, stack: Stack, option: dict[str, Any]
) -> None:
    await ask(client, **option)

    assert stack.decode.received[0].ticket is None
    assert not stack.prefill.received


async def test_several_choices_end_when_the_last_does(client: aio.Client, stack: Stack) -> None:
    stack.decode.next(pieces(*events({"n": 2}, ["one", "two"], chat=True)))

    answer = await ask(client, n=2)

    assert answer.text == "onetwo"


async def test_threads_are_served_alike(stack: Stack) -> None:
    def converse() -> str:
        with (
            sync.Client(registry=stack.registry.address, router=stack.router.address) as client,
            client.conversation("c") as conversation,
        ):
            answer = conversation.chat(MESSAGES, model=MODEL)
            said = "".join(chunk.text for chunk in answer)
            assert said == answer.text
            assert answer.message["role"] == "assistant"
            assert answer.finish_reason == "stop"
            assert answer.report
            assert answer.usage is None
            return said

    assert await asyncio.to_thread(converse) == "Hello from afar"
    assert len(await stack.called("CompleteTicket")) == 1


async def test_a_thread_may_leave_early(stack: Stack) -> None:
    def leave() -> None:
        with (
            sync.Client(registry=stack.registry.address, router=stack.router.address) as client,
            client.conversation("c") as conversation,
        ):
            answer = conversation.chat(MESSAGES, model=MODEL)
            next(answer)
            answer.close()

    await asyncio.to_thread(leave)
    assert len(await stack.called("CancelTicket")) == 1


def test_without_an_http_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    monkeypatch.delitem(sys.modules, "kvlease.client.chat")
    monkeypatch.delattr(kvlease.client, "chat")

    with (
        sync.Client(registry="127.0.0.1:1") as client,
        client.conversation("c") as conversation,
        pytest.raises(ImportError, match=re.escape("kvlease[client]")),
    ):
        conversation.chat(MESSAGES, model=MODEL)
