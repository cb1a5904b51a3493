"""A read of a block that was freed or reused is a wrong answer, and is seen by engine and client alike."""

import pytest

from kvlease.sim import answer, tokens
from tests.sim.stack import Stack, running
from tests.sim.test_reuse import SYSTEM, WORDS, user

FIRST = [SYSTEM, user("One.")]


async def lease(stack: Stack) -> list[dict[str, str]]:
    """Lets decode keep a conversation; returns the messages of its next turn."""
    told = await stack.chat(FIRST, "c", max_tokens=WORDS)
    return [*FIRST, told["choices"][0]["message"], user("Two.")]


def let_go(stack: Stack) -> None:
    """Decode frees the blocks of its leases, with no order to do so."""
    retention = stack.decode.engine.connector.retention
    for name in list(retention._kept):
        retention.let_go(name)
        retention._kept[name] = []


@pytest.mark.parametrize("reused", [False, True], ids=["freed", "freed and reused"])
async def test_blocks_that_their_owner_freed_too_early_give_a_wrong_answer(reused: bool) -> None:
    async with running(blocks=80) as stack:
        asked = await lease(stack)
        let_go(stack)
        if reused:
            await stack.chat([user("Something else. " * 40)], max_tokens=WORDS)

        told = await stack.chat(asked, "c", max_tokens=WORDS)

    said = told["choices"][0]["message"]["content"]
    assert told["kvlease_sim"] == {"wrong": True}
    assert said != answer.text(tokens.of_chat(asked), WORDS)
    assert stack.prefill.engine.wrong_answers == 1
    assert stack.decode.engine.wrong_answers == 1


async def test_a_failed_read_is_no_wrong_answer() -> None:
    async with running() as stack:
        asked = await lease(stack)
        stack.fleet._wire.detach(stack.decode.engine.connector._name)

        told = await stack.chat(asked, "c", max_tokens=WORDS)

    assert told["choices"][0]["message"]["content"] == answer.text(tokens.of_chat(asked), WORDS)
    assert stack.prefill.engine.connector.transfers.counters.failed == 1
    assert stack.prefill.engine.wrong_answers == 0
