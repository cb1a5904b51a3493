"""An engine that is drained gets no new turn, and what it keeps is read on or freed, as is wanted."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kvlease.cli.__main__ import main
from kvlease.sim.instance import Instance
from tests.sim.stack import Stack, running, until
from tests.sim.test_reuse import Talk, nothing_wrong
from tests.sim.test_troubles import holder


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    async with running(decode=2) as made:
        yield made


async def drain(instance: Instance, *options: str) -> int:
    """Drains it from the command line, and waits until the router has seen that."""
    registry = instance.settings.connector.registry
    command = ["engines", "drain", instance.url.removeprefix("http://"), "--registry", registry, *options]
    code = await asyncio.to_thread(main, command)
    await asyncio.sleep(0.2)  # four looks of the router at the engines
    return code


async def test_a_conversation_moves_to_another_engine_and_reuses_what_the_drained_one_keeps(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("One.")
    drained, kept = holder(stack), talk.total - 1

    assert await drain(drained) == 0
    assert await talk.say("Two.") == kept

    assert await drain(drained, "--wait", "20s") == 0
    assert drained is not holder(stack)
    assert nothing_wrong(stack)


async def test_a_drained_engine_that_is_to_release_keeps_nothing(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("One.")
    drained = holder(stack)

    assert await drain(drained, "--release", "--wait", "20s") == 0
    await until(lambda: drained.engine.pool.usage == 0)

    assert await talk.say("Two.") == 0
    assert drained is not holder(stack)
    assert await drain(drained, "--undo") == 0
