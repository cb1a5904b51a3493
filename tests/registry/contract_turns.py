"""Ends of turns: due grants, late grants, the ttl that the application's view of the answer gives."""

import asyncio

import pytest

from kvlease.registry.errors import BudgetExhausted, NoLease, TurnOver
from kvlease.registry.lease import Reason, State, StopReason
from kvlease.registry.turns import TurnOutcome
from tests.registry.world import CHAT, World

COMPLETED, CANCELLED, FAILED = TurnOutcome.COMPLETED, TurnOutcome.CANCELLED, TurnOutcome.PREFILL_FAILED
NOTHING_KEPT = TurnOutcome.NOTHING_KEPT


class TurnContract:
    async def test_a_claim_waits_for_a_grant_that_is_due(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcd")
        await world.end_turn("t2", COMPLETED, by=hand)
        waiting = asyncio.ensure_future(reader.claim("abcdefgh", wait=0.05))
        await world.settle()
        assert not waiting.done()

        await hand.grant("l2", "abcdefgh", ticket_id="t2")

        assert (await waiting).lease.terms.lease_id == "l2"

    async def test_a_claim_takes_what_is_there_when_its_wait_is_over(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcd")
        await world.end_turn("t2", COMPLETED, by=hand)
        waiting = asyncio.ensure_future(reader.claim("abcdefgh", wait=0.05))
        await world.settle()

        await world.advance(0.05)

        assert (await waiting).lease.terms.lease_id == "l1"

    async def test_a_claim_that_does_not_wait_takes_what_is_there(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcd")
        await world.end_turn("t2", COMPLETED, by=hand)

        assert (await reader.claim("abcdefgh")).lease.terms.lease_id == "l1"

    async def test_a_grant_is_not_due_for_ever(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await world.end_turn("t1", COMPLETED, by=hand)

        await world.advance(world.rules.grant_due)

        with pytest.raises(NoLease):
            await reader.claim("abcdefgh", wait=60.0)

    async def test_a_grant_that_came_before_is_not_due(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcd", ticket_id="t1")
        await world.end_turn("t1", COMPLETED, by=hand)

        assert (await reader.claim("abcdefgh", wait=60.0)).lease.terms.lease_id == "l1"

    async def test_no_grant_is_due_from_an_engine_that_is_gone(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await world.store.close_session(hand.credential)
        await world.end_turn("t1", COMPLETED, by=hand)

        with pytest.raises(NoLease):
            await reader.claim("abcdefgh", wait=60.0)

    async def test_nobody_waits_for_a_grant_that_was_refused(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await world.end_turn("t1", COMPLETED, by=hand)
        waiting = asyncio.ensure_future(reader.claim("abcdefgh", wait=1.0))
        await world.settle()

        with pytest.raises(BudgetExhausted):
            await hand.grant("l1", "abcd", ticket_id="t1", blocks=1000)

        with pytest.raises(NoLease):
            await waiting

    async def test_nobody_waits_for_a_turn_that_was_cancelled(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await world.end_turn("t1", COMPLETED, by=hand)
        waiting = asyncio.ensure_future(reader.claim("abcdefgh", wait=1.0))
        await world.settle()

        await world.end_turn("t1", CANCELLED)

        with pytest.raises(NoLease):
            await waiting

    async def test_nobody_waits_for_a_turn_of_which_decode_keeps_nothing(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await world.end_turn("t1", COMPLETED, by=hand)
        waiting = asyncio.ensure_future(reader.claim("abcdefgh", wait=1.0))
        await world.settle()

        for _ in range(2):
            await world.end_turn("t1", NOTHING_KEPT, by=hand)

        with pytest.raises(NoLease):
            await waiting

    async def test_no_grant_is_due_of_a_turn_of_which_decode_kept_nothing_before_it_was_completed(
        self, world: World
    ) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await world.end_turn("t1", NOTHING_KEPT, by=hand)

        await world.end_turn("t1", COMPLETED, by=hand)

        with pytest.raises(NoLease):
            await reader.claim("abcdefgh", wait=60.0)

    async def test_the_grant_of_another_turn_stays_due(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await world.end_turn("t2", COMPLETED, by=hand)
        await world.end_turn("t1", NOTHING_KEPT, by=hand)
        waiting = asyncio.ensure_future(reader.claim("abcdefgh", wait=1.0))
        await world.settle()

        await hand.grant("l2", "abcdefgh", ticket_id="t2")

        assert (await waiting).lease.terms.lease_id == "l2"

    async def test_what_another_answer_of_a_turn_needs_outlives_one_that_kept_nothing(self, world: World) -> None:
        hand, prefill = await world.engine(), await world.engine("p0")
        await prefill.grant_prefill("p1", "t1")

        await world.end_turn("t1", NOTHING_KEPT, by=hand)

        assert (await hand.claim_prefill("t1")).lease.terms.lease_id == "p1"
        assert (await hand.grant("l1", "abcd", ticket_id="t1")).generation == 1

    @pytest.mark.parametrize("granted_first", [True, False])
    async def test_the_turns_lease_lives_by_what_the_application_saw(
        self, world: World, *, granted_first: bool
    ) -> None:
        hand = await world.engine()
        if granted_first:
            await hand.grant("l1", "abcd", ticket_id="t1", stop=StopReason.ANSWERED)

        await world.end_turn("t1", COMPLETED, stop=StopReason.TOOLS_CALLED, by=hand)

        if not granted_first:
            await hand.grant("l1", "abcd", ticket_id="t1", stop=StopReason.ANSWERED)
        shown = await world.show("l1")
        assert (shown.remaining, shown.stop_reason) == (480.0, StopReason.TOOLS_CALLED)

    async def test_a_completed_turn_ends_once(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd", ticket_id="t1")
        await world.end_turn("t1", COMPLETED, by=hand)
        await hand.passes(10)

        await world.end_turn("t1", COMPLETED, by=hand)

        assert (await world.show("l1")).remaining == 50.0

    async def test_nothing_is_granted_for_a_cancelled_turn(self, world: World) -> None:
        hand, prefill = await world.engine(), await world.engine("p0")
        await world.end_turn("t1", CANCELLED)

        with pytest.raises(TurnOver):
            await hand.grant("l1", "abcd", ticket_id="t1")
        with pytest.raises(TurnOver):
            await prefill.grant_prefill("p1", "t1")

    async def test_nothing_is_granted_for_a_turn_whose_conversation_was_ended_before(self, world: World) -> None:
        hand = await world.engine()
        await world.end_turn("t1", COMPLETED, by=hand)

        await world.store.end_conversation(CHAT)

        with pytest.raises(TurnOver):
            await hand.grant("l1", "abcd", ticket_id="t1")

    async def test_a_turn_whose_prefill_failed_goes_on(self, world: World) -> None:
        hand, prefill = await world.engine(), await world.engine("p0")
        await world.end_turn("t1", FAILED)

        with pytest.raises(TurnOver):
            await prefill.grant_prefill("p1", "t1")
        assert (await hand.grant("l1", "abcd", ticket_id="t1")).generation == 1

    async def test_several_answers_of_one_turn_are_branches(self, world: World) -> None:
        hand = await world.engine()
        await world.end_turn("t1", COMPLETED, by=hand)

        for i in range(3):
            await hand.grant(f"l{i}", f"abcd{i}", ticket_id="t1")

        assert await world.live() == ["l0", "l1", "l2"]

    @pytest.mark.parametrize(
        ("outcome", "reason"), [(COMPLETED, Reason.READ), (CANCELLED, Reason.ENDED), (FAILED, Reason.ENDED)]
    )
    async def test_prefills_lease_goes_with_the_turn(self, world: World, outcome: TurnOutcome, reason: Reason) -> None:
        prefill = await world.engine("p0")
        await prefill.grant_prefill("p1", "t1")

        await world.end_turn("t1", outcome, by=prefill)

        assert await prefill.orders() == {"p1": reason}

    async def test_a_lease_that_was_granted_before_its_turn_was_cancelled_stays(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd", ticket_id="t1")

        await world.end_turn("t1", CANCELLED)

        assert (await world.show("l1")).state is State.LIVE

    async def test_the_end_of_a_turn_tells_how_prefill_came_by_its_kv(self, world: World) -> None:
        prefill = await world.engine("p0")
        assert await world.end_turn("t0", COMPLETED) is None
        await prefill.grant_prefill("p1", "t1", report=b"how")

        assert await world.end_turn("t1", COMPLETED) == b"how"
