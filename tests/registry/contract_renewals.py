"""Renewal, release, end and revocation: who may give a lease how much more time, or take it away."""

import asyncio

import pytest

from kvlease.registry.endings import Selection
from kvlease.registry.errors import LeaseNotFound, TurnOver
from kvlease.registry.lease import Conversation, Reason, State, StopReason
from kvlease.registry.renewals import Outcome, Renewal, Renewed
from tests.registry.world import CHAT, World


class RenewalContract:
    @pytest.mark.parametrize("renewal", [Renewal(lease_id="l1"), Renewal(conversation_id="chat")])
    async def test_a_renewed_lease_lives_on_by_the_rules(self, world: World, renewal: Renewal) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd", stop=StopReason.TOOLS_CALLED)
        await hand.passes(100)

        (renewed,) = await world.store.renew("t1", [renewal])

        assert renewed == Renewed(Outcome.RENEWED, 480.0, 1)

    async def test_a_renewal_may_ask_for_a_length(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd")

        (renewed,) = await world.store.renew("t1", [Renewal(lease_id="l1", ttl=100.0)])

        assert renewed.remaining == 100.0

    async def test_a_renewal_never_shortens(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd")

        (renewed,) = await world.store.renew("t1", [Renewal(lease_id="l1", ttl=1.0)])

        assert renewed == Renewed(Outcome.RENEWED, 60.0, 1)

    async def test_nothing_is_renewed_beyond_the_longest_life(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd")

        results = [(await world.store.renew("t1", [Renewal(lease_id="l1", ttl=9999.0)]))[0] for _ in range(2)]

        assert results == [Renewed(Outcome.RENEWED, 3600.0, 1), Renewed(Outcome.AT_LIMIT, 3600.0, 1)]

    async def test_a_lease_renewed_at_its_deadline_is_already_lost(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd")
        await hand.passes(60)

        for target in (Renewal(lease_id="l1"), Renewal(conversation_id="chat")):
            assert (await world.store.renew("t1", [target]))[0].outcome is Outcome.NOT_FOUND

    async def test_another_tenants_lease_is_not_found(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd")

        for target in (Renewal(lease_id="l1"), Renewal(conversation_id="chat")):
            assert (await world.store.renew("t2", [target]))[0].outcome is Outcome.NOT_FOUND
        assert await world.store.end_conversation(Conversation("t2", "chat")) == 0

    async def test_a_conversations_renewal_concerns_all_its_branches(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "1abc")
        await hand.grant("l2", "2abc", stop=StopReason.TOOLS_CALLED)

        (renewed,) = await world.store.renew("t1", [Renewal(conversation_id="chat")])

        assert renewed == Renewed(Outcome.RENEWED, 480.0, 2)

    async def test_results_come_in_the_order_of_renewals(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd")

        results = await world.store.renew("t1", [Renewal(lease_id="x"), Renewal(lease_id="l1")])

        assert [x.outcome for x in results] == [Outcome.NOT_FOUND, Outcome.RENEWED]

    async def test_an_owner_renews_with_its_heartbeat_what_is_its_own(self, world: World) -> None:
        hand, other = await world.engine(), await world.engine("d1")
        await hand.grant("l1", "abcd")
        for _ in range(9):
            await hand.passes(1)
            await other.beat()

        await other.beat(renew=("l1",))
        assert (await world.show("l1")).remaining == 51.0
        await hand.beat(renew=("l1", "unknown"))

        assert (await world.show("l1")).remaining == 60.0

    async def test_the_end_of_a_conversation_frees_its_leases(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "1abc")
        await hand.grant("l2", "2abc")

        ended = [await world.store.end_conversation(CHAT) for _ in range(2)]

        assert ended == [2, 0]
        assert await hand.orders() == {"l1": Reason.ENDED, "l2": Reason.ENDED}

    @pytest.mark.parametrize(
        ("selection", "revoked"),
        [
            (Selection(lease_ids=("l1", "unknown")), ["l1"]),
            (Selection(conversation=CHAT), ["l1", "l2"]),
            (Selection(engine_id="d0"), ["l1", "l3"]),
            (Selection(conversation=CHAT, engine_id="d0"), ["l1"]),
            (Selection(lease_ids=("l2",), engine_id="d0"), []),
        ],
    )
    async def test_all_that_a_revocation_names_must_hold(
        self, world: World, selection: Selection, revoked: list[str]
    ) -> None:
        d0, d1 = await world.engine("d0"), await world.engine("d1")
        await d0.grant("l1", "1abc")
        await d1.grant("l2", "2abc")
        await d0.grant("l3", "3abc", conversation=Conversation("t2", "other"))

        assert await world.store.revoke(selection) == len(revoked)

        assert sorted({**await d0.orders(), **await d1.orders()}) == revoked

    async def test_a_released_lease_is_gone_once_its_owner_has_said_so(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd")

        assert await hand.release("l1")
        await hand.beat(freed=("l1",))

        with pytest.raises(LeaseNotFound):
            await world.show("l1")
        assert await hand.release("l1")

    async def test_a_lease_that_was_released_before_its_grant_came_is_not_granted(self, world: World) -> None:
        hand = await world.engine()

        assert await hand.release("l1")

        with pytest.raises(TurnOver):
            await hand.grant("l1", "abcd")

    async def test_a_release_whose_answer_was_lost_is_answered_by_orders(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd")

        await hand.release("l1")

        assert await hand.orders() == {"l1": Reason.RELEASED}
        assert await hand.release("l1")

    async def test_a_released_lease_that_is_read_is_ordered_free_later(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcd")
        await reader.claim("abcd", claim_id="c1")

        assert not await hand.release("l1")
        assert (await world.show("l1")).state is State.RETIRING
        await reader.finish("c1")

        assert await hand.orders() == {"l1": Reason.RELEASED}

    async def test_a_release_waits_for_the_last_reader(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcd")
        await reader.claim("abcd", claim_id="c1")
        waiting = asyncio.ensure_future(hand.release("l1", wait=10.0))
        await world.settle()
        assert not waiting.done()

        await reader.finish("c1")

        assert await waiting

    async def test_a_release_waits_no_longer_than_a_claim_that_nobody_renews(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcd")
        await reader.claim("abcd")
        waiting = asyncio.ensure_future(hand.release("l1", wait=10.0))
        await world.settle()

        await world.advance(5.0)

        assert await waiting

    async def test_another_owners_lease_is_not_released(self, world: World) -> None:
        hand, other = await world.engine(), await world.engine("d1")
        await hand.grant("l1", "abcd")

        assert await other.release("l1")

        assert await world.live() == ["l1"]

    async def test_releasing_all_tells_what_is_free_and_what_is_read(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "1abc")
        await hand.grant("l2", "2abc")
        await reader.claim("2abc")

        released, claimed = await world.store.release_all(hand.credential, 0.0)

        assert (released, claimed) == (["l1"], ["l2"])

    async def test_releasing_all_waits_for_the_readers(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "1abc")
        await hand.grant("l2", "2abc")
        await reader.claim("2abc", claim_id="c1")
        waiting = asyncio.ensure_future(world.store.release_all(hand.credential, 10.0))
        await world.settle()

        await reader.finish("c1")

        assert await waiting == (["l1", "l2"], [])
