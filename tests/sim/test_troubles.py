"""Whatever fails around simulated engines, conversations go on, answers are right, and reuse comes back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kvlease.sim.instance import Instance
from tests.sim.stack import Stack, running, until
from tests.sim.test_reuse import Talk, end, nothing_held, nothing_wrong, reads, reuses


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    async with running(decode=2) as made:
        yield made


async def trouble(stack: Stack, instance: Instance, **faults: Any) -> None:
    async with stack.http.post(f"{instance.url}/admin/faults", json=faults) as told:
        assert told.status == 200


def holder(stack: Stack) -> Instance:
    """Returns the decode engine that has a lease."""
    [instance] = [instance for instance in stack.of("decode") if instance.engine.connector.owner.leases]
    return instance


async def crash(stack: Stack, instance: Instance, restart_after: float | None) -> None:
    async with stack.http.post(f"{instance.url}/admin/crash", json={"restart_after": restart_after}) as told:
        assert told.status == 200


async def test_the_turn_after_a_crash_of_decode_is_computed_and_the_next_one_read(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("One.")

    await crash(stack, holder(stack), restart_after=None)

    assert await talk.say("Two.") == 0
    assert await reuses(talk)
    assert nothing_wrong(stack)


async def test_a_crashed_engine_comes_back_by_itself(stack: Stack) -> None:
    [prefill] = stack.of("prefill")
    before = prefill.engine

    await crash(stack, prefill, restart_after=0.1)
    await Talk(stack, "meanwhile").say("One.")
    await until(lambda: prefill.running and prefill.engine is not before and prefill.engine.connector.link.connected)

    assert nothing_wrong(stack)


@pytest.mark.parametrize("victim", ["prefill", "decode"])
async def test_a_frozen_engine_loses_its_leases_and_is_back_when_it_is_thawed(stack: Stack, victim: str) -> None:
    talk = Talk(stack, "c")
    await talk.say("One.")
    instance = stack.prefill if victim == "prefill" else holder(stack)
    await trouble(stack, instance, freeze=60)

    await talk.say("Two.")
    await trouble(stack, instance, freeze=0)

    await until(lambda: instance.engine.connector.link.connected)
    assert await reuses(talk)
    assert nothing_wrong(stack)


async def test_lost_answers_make_no_second_lease(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("One.")
    await end(stack, "c")
    await nothing_held(stack)
    for instance in stack.fleet.instances:
        await trouble(stack, instance, lose_answers=1)

    await talk.say("Two.")

    await until(lambda: sum(instance.engine.connector.owner.leases for instance in stack.of("decode")) <= 1)
    await end(stack, "c")
    await nothing_held(stack)
    assert nothing_wrong(stack)


async def test_reads_that_never_end_are_given_up_and_their_blocks_kept_out_of_use(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("One.")
    await trouble(stack, stack.prefill, black_hole=60)

    for turn in range(5):
        assert await talk.say(f"Turn {turn}.") == 0
        if stack.prefill.engine.connector.retention.blocks:  # nobody uses them while the read might still write
            break

    assert reads(stack) == 0
    assert nothing_wrong(stack)
    assert stack.prefill.engine.connector.retention.blocks > 0


async def test_an_engine_that_is_cut_off_from_the_control_plane_serves_without_leases(stack: Stack) -> None:
    for instance in stack.fleet.instances:
        await trouble(stack, instance, control_cut=60)

    talk = Talk(stack, "c")
    await talk.say("One.")
    await talk.say("Two.")

    assert nothing_wrong(stack)


async def test_reads_slower_than_a_claim_are_right_all_the_same(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("One.")
    await trouble(stack, stack.prefill, read_delay=1.8)

    assert await reuses(talk)
    assert nothing_wrong(stack)


async def test_a_dropped_prefill_leaves_decode_to_compute(stack: Stack) -> None:
    await trouble(stack, stack.prefill, drop_next=1)

    await Talk(stack, "c").say("One. " * 50)

    assert nothing_wrong(stack)


async def test_a_prefill_that_its_engine_gives_up_leaves_decode_to_compute(stack: Stack) -> None:
    talk = Talk(stack, "c")
    await talk.say("One.")
    await trouble(stack, stack.prefill, freeze=60)  # so that the request is there when it is given up
    asking = asyncio.create_task(talk.say("Two."))
    await until(lambda: bool(stack.prefill.engine.scheduler.waiting))

    stack.prefill.engine.abort_all()
    await trouble(stack, stack.prefill, freeze=0)

    await asking
    assert nothing_wrong(stack)
