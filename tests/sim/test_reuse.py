"""Simulated engines under a real control plane: what decode keeps is what prefill reads, and the answer is right."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kvlease.client.aio import Client
from kvlease.sim import answer, tokens
from tests.sim.stack import Stack, running, until

SYSTEM = {"role": "system", "content": "You are an engine that pretends. " * 20}
WORDS = 20
WAIT = 10.0


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    async with running() as made:
        yield made


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


class Talk:
    """A conversation that checks each of its answers."""

    def __init__(self, stack: Stack, name: str) -> None:
        self.stack, self.name = stack, name
        self.messages: list[dict[str, Any]] = [SYSTEM]
        self.total = 0

    async def say(self, text: str, **body: Any) -> int:
        """Says something more; returns how many tokens prefill did not compute."""
        self.messages.append(user(text))
        told = await self.stack.chat(self.messages, self.name, **{"max_tokens": WORDS} | body)
        message = told["choices"][0]["message"]
        said = message["content"] or message["tool_calls"][0]["function"]["arguments"]
        assert said == answer.text(tokens.of_chat(self.messages), len(said) // 4)
        self.messages.append(message)
        self.total = told["usage"]["total_tokens"]
        return int(told["usage"]["prompt_tokens_details"]["cached_tokens"])


async def reuses(talk: Talk) -> bool:
    """Whether one of the next turns reads what decode kept: on a busy machine a lease may be missed."""
    for turn in range(5):
        if await talk.say(f"Turn {turn} of those that may reuse.") > 0:
            return True
    return False


def reads(stack: Stack) -> int:
    return stack.prefill.engine.connector.transfers.counters.reads


async def added_waits(stack: Stack, name: str, turns: int) -> list[float]:
    """Waits until prefill has told of so many turns of a conversation; returns how long each waited in seconds."""
    async with asyncio.timeout(20), Client(router=stack.router) as client:
        while True:
            told = [ticket.report for ticket in await client.list_tickets(conversation_id=name)]
            waits = [report.added_wait for report in told if report]
            if len(waits) == turns:
                return waits
            await asyncio.sleep(0.05)


def nothing_wrong(stack: Stack) -> bool:
    return not any(instance.engine.wrong_answers for instance in stack.fleet.instances)


async def end(stack: Stack, name: str) -> None:
    async with stack.http.delete(f"{stack.url}/v1/conversations/{name}") as ended:
        assert ended.status == 200


async def nothing_held(stack: Stack) -> None:
    await until(lambda: not any(instance.engine.pool.usage for instance in stack.fleet.instances))


async def test_from_the_second_turn_on_prefill_reads_what_decode_kept(stack: Stack) -> None:
    talk = Talk(stack, "c")

    assert await talk.say("One.") == 0
    for turn in range(1, 4):
        kept = talk.total - 1
        assert await talk.say(f"Turn {turn}.") == kept
        assert reads(stack) == turn
    assert nothing_wrong(stack)


async def test_a_turn_after_a_tool_call_is_read_too(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("Look.", tools=[{"type": "function"}], tool_choice="required", max_tokens=100)

    kept = talk.total - 1
    assert await talk.say("Found.") == kept
    assert nothing_wrong(stack)


async def test_an_edited_history_is_read_as_far_as_it_is_the_same(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("A long question. " * 40)
    talk.messages[1] = user("A long question. " * 20 + "Edited.")

    cached = await talk.say("Two.")

    assert 0 < cached < 300
    assert cached % 128 == 0
    assert nothing_wrong(stack)


async def test_the_same_question_again_gets_the_same_answer(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("One.")

    for _ in range(5):
        del talk.messages[1:]
        if await talk.say("One.") > 0:
            break

    assert reads(stack) > 0
    assert nothing_wrong(stack)


async def test_nothing_is_reused_between_conversations(stack: Stack) -> None:
    await Talk(stack, "one").say("One.")

    assert await Talk(stack, "other").say("One.") == 0


@pytest.mark.parametrize("one_way", ["", "decode"])
async def test_a_turn_does_not_wait_for_a_lease_of_one_before_it_that_kept_nothing(one_way: str) -> None:
    async with running(one_way=one_way, wait=WAIT) as stack:
        await stack.chat([user("Hi.")], "c", max_tokens=2)
        await stack.chat([user("Hi."), SYSTEM], "c", max_tokens=2)

        assert max(await added_waits(stack, "c", turns=2)) < WAIT / 2


async def test_many_conversations_at_once_do_not_disturb_one_another(stack: Stack) -> None:
    talks = [Talk(stack, f"c{n}") for n in range(6)]

    for turn in range(3):
        await asyncio.gather(*(talk.say(f"Turn {turn}.") for talk in talks))

    assert await reuses(talks[0])
    assert nothing_wrong(stack)


async def test_an_ended_conversation_leaves_nothing_behind(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("One.")
    await talk.say("Two.")

    await end(stack, "c")

    await nothing_held(stack)


async def test_a_client_that_leaves_leaves_nothing_behind() -> None:
    async with running() as stack:
        body = {"model": "sim", "messages": [SYSTEM, user("One.")], "stream": True, "ignore_eos": True}
        url, headers = f"{stack.url}/v1/chat/completions", {"x-session-id": "c"}
        async with stack.http.post(url, json=body, headers=headers) as reply:
            await reply.content.readline()
            reply.close()

        await until(lambda: stack.decode.engine.finished.total() > 0)
        await end(stack, "c")  # of a turn that was cancelled a lease may stay: its KV is good
        await nothing_held(stack)


async def test_a_full_pool_gives_way_to_new_conversations() -> None:
    async with running(blocks=64) as stack:
        await Talk(stack, "first").say("Registries order nothing freed in their first moments.")
        await end(stack, "first")
        await nothing_held(stack)

        for number in range(8):
            await Talk(stack, f"c{number}").say(f"Conversation {number}.")

        assert nothing_wrong(stack)
        assert stack.decode.engine.connector.retention.blocks < 63
