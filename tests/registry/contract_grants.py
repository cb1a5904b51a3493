"""Grants: numbering, retries, what a new lease retires, branches, budget, limits."""

from dataclasses import replace

import pytest

from kvlease.registry.errors import BudgetExhausted, IdTaken, IncarnationMismatch, LeaseNotFound, TenantLimit, TurnOver
from kvlease.registry.lease import Conversation, EngineRef, Reason, State, StopReason
from kvlease.registry.renewals import Renewal
from kvlease.registry.rules import Rules
from tests.registry.digests import chain
from tests.registry.world import CHAT, World, WorldMaker


class GrantContract:
    async def test_leases_are_numbered_within_their_conversation(self, world: World) -> None:
        hand = await world.engine()

        numbers = [(await hand.grant(f"l{i}", f"{i}text")).generation for i in range(3)]
        other = await hand.grant("o1", "text", conversation=Conversation("t1", "other"))

        assert (numbers, other.generation) == ([1, 2, 3], 1)

    @pytest.mark.parametrize(
        ("stop", "ttl"),
        [
            (StopReason.UNKNOWN, 60.0),
            (StopReason.ANSWERED, 60.0),
            (StopReason.LENGTH, 60.0),
            (StopReason.TOOLS_CALLED, 480.0),
        ],
    )
    async def test_a_lease_lives_by_why_the_turn_ended(self, world: World, stop: StopReason, ttl: float) -> None:
        hand = await world.engine()

        granted = await hand.grant("l1", "some text", stop=stop)

        assert granted.remaining == ttl

    async def test_a_retry_gets_the_lease_as_it_is(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")
        await world.advance(1.0)

        again = await hand.grant("l1", "some text")

        assert (again.generation, again.remaining) == (1, 59.0)

    async def test_a_retry_after_the_conversation_ended_has_nothing_left(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")
        await world.store.end_conversation(CHAT)

        assert (await hand.grant("l1", "some text")).remaining == 0.0

    async def test_an_id_cannot_be_used_for_other_contents(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")

        with pytest.raises(IdTaken):
            await hand.grant("l1", "other text")

    async def test_an_id_cannot_be_used_by_another_owner_even_when_its_lease_is_gone(self, world: World) -> None:
        hand, other = await world.engine(), await world.engine("d1")
        await hand.grant("l1", "some text")
        with pytest.raises(IdTaken):
            await other.grant("l1", "some text")

        await hand.release("l1")

        with pytest.raises(IdTaken):
            await other.grant("l1", "some text")

    async def test_a_lease_that_is_gone_is_not_granted_again(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")
        await hand.release("l1")
        await hand.beat(freed=("l1",))

        with pytest.raises(TurnOver):
            await hand.grant("l1", "some text")

    async def test_a_handle_must_be_of_the_sessions_own_incarnation(self, world: World) -> None:
        hand = await world.engine()

        with pytest.raises(IncarnationMismatch):
            await hand.grant("l1", "some text", engine=EngineRef("d0", "i0"))

    async def test_a_lease_that_nobody_renews_expires_at_its_deadline(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")

        await hand.passes(59)
        assert (await world.show("l1")).state is State.LIVE
        await world.advance(1.0)

        assert (await world.show("l1")).reason is Reason.EXPIRED
        assert await hand.orders() == {"l1": Reason.EXPIRED}

    async def test_a_turn_that_grew_from_a_lease_supersedes_it(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")

        await hand.grant("l2", "some text and more", parent="l1")

        assert await world.live() == ["l2"]
        assert (await world.show("l1")).reason is Reason.SUPERSEDED

    async def test_a_lease_that_ends_on_a_stride_is_superseded_even_unnamed(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "12345678")

        await hand.grant("l2", "1234567890")

        assert await world.live() == ["l2"]

    async def test_an_unproved_tail_that_nobody_named_lives_on(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "1234567")

        await hand.grant("l2", "1234567890")

        assert await world.live() == ["l1", "l2"]

    async def test_the_same_tokens_again_supersede(self, world: World) -> None:
        hand, other = await world.engine(), await world.engine("d1")
        await hand.grant("l1", "some text")

        await other.grant("l2", "some text")

        assert await world.live() == ["l2"]

    async def test_another_answer_of_the_same_length_is_a_branch(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "question: 7")

        await hand.grant("l2", "question: 8")

        assert await world.live() == ["l1", "l2"]

    async def test_an_edited_history_is_a_branch_even_if_its_prompt_grew_from_the_lease(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcdefgh")

        await hand.grant("l2", "abcdXYZhijkl", parent="l1")

        assert await world.live() == ["l1", "l2"]

    async def test_a_shortened_history_does_not_retire_the_longer_one(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcdefgh")

        await hand.grant("l2", "abcd", parent="l1")

        assert await world.live() == ["l1", "l2"]

    @pytest.mark.parametrize("unlike", [{"key_id": "k2"}, {"stride": 2}])
    async def test_chains_of_another_kind_never_match(self, world: World, unlike: dict[str, str]) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcdefgh")

        other = hand.terms("l2", chain("abcdefgh", **unlike), parent="l1")  # type: ignore[arg-type]
        await world.store.grant(hand.credential, other, None)

        assert await world.live() == ["l1", "l2"]

    async def test_another_conversation_is_left_alone(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcdefgh")

        await hand.grant("l2", "abcdefgh", conversation=Conversation("t2", "chat"))

        assert await world.live() == ["l1"]

    async def test_a_superseded_lease_waits_for_its_last_reader(self, world: World) -> None:
        hand, p0, p1 = await world.engine(), await world.engine("p0"), await world.engine("p1")
        await hand.grant("l1", "some text")
        await p0.claim("some text", claim_id="c0")
        await p1.claim("some text", claim_id="c1")
        await hand.grant("l2", "some text and more", parent="l1")

        await p0.finish("c0")
        assert await hand.orders() == {}
        await p1.finish("c1")

        assert await hand.orders() == {"l1": Reason.SUPERSEDED}

    async def test_of_too_many_branches_the_least_recently_renewed_goes(self, world: World) -> None:
        hand = await world.engine()
        for i in range(4):
            await hand.grant(f"l{i}", f"{i}text")
            await hand.passes(1)
        await world.store.renew("t1", [Renewal(lease_id="l0")])

        await hand.grant("l4", "4text")

        assert await world.live() == ["l0", "l2", "l3", "l4"]
        assert (await world.show("l1")).reason is Reason.BRANCH_LIMIT

    async def test_of_too_many_branches_one_goes_that_nobody_reads(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        for i in range(4):
            await hand.grant(f"l{i}", f"{i}text")
        await reader.claim("0text")

        await hand.grant("l4", "4text")

        assert await world.live() == ["l0", "l2", "l3", "l4"]

    async def test_over_budget_the_least_recently_renewed_go(self, world: World) -> None:
        hand = await world.engine(blocks=100)
        for i in range(5):
            await hand.grant(f"l{i}", "text", blocks=10, conversation=Conversation("t1", f"chat{i}"))

        await hand.grant("l5", "text", blocks=15, conversation=Conversation("t1", "chat5"))

        assert await hand.orders() == {"l0": Reason.REVOKED, "l1": Reason.REVOKED}

    async def test_over_budget_the_one_goes_first_that_its_next_turn_has_read(self, world: World) -> None:
        hand, reader = await world.engine(blocks=100), await world.engine("p0")
        await hand.grant("l0", "text", blocks=25, conversation=Conversation("t1", "other"))
        await hand.grant("l1", "text", blocks=25)
        await reader.claim("text", claim_id="c1")
        await reader.finish("c1")

        await hand.grant("l2", "text", blocks=25, conversation=Conversation("t1", "third"))

        assert await hand.orders() == {"l1": Reason.REVOKED}

    async def test_over_budget_and_all_is_read_the_grant_is_refused_and_nothing_is_revoked(self, world: World) -> None:
        hand, reader = await world.engine(blocks=100), await world.engine("p0")
        await hand.grant("l0", "text", blocks=40)
        await hand.grant("l1", "text", blocks=10, conversation=Conversation("t1", "other"))
        await reader.claim("text")

        with pytest.raises(BudgetExhausted) as caught:
            await hand.grant("l2", "text", blocks=20, conversation=Conversation("t1", "third"))

        assert caught.value.retry_after > 0
        assert await hand.orders() == {}

    async def test_what_was_refused_is_not_granted_to_a_copy_of_the_call_that_comes_late(self, world: World) -> None:
        hand, reader = await world.engine(blocks=100), await world.engine("p0")
        await hand.grant("l0", "text", blocks=40)
        await reader.claim("text", claim_id="c1")
        with pytest.raises(BudgetExhausted):
            await hand.grant("l1", "text", blocks=20, conversation=Conversation("t1", "other"))
        await reader.finish("c1")

        with pytest.raises(TurnOver):
            await hand.grant("l1", "text", blocks=20, conversation=Conversation("t1", "other"))

    async def test_a_lease_larger_than_the_budget_is_refused(self, world: World) -> None:
        hand = await world.engine(blocks=100)

        with pytest.raises(BudgetExhausted):
            await hand.grant("l0", "text", blocks=51)

    async def test_what_a_grant_supersedes_makes_room_for_it(self, world: World) -> None:
        hand = await world.engine(blocks=100)
        await hand.grant("other", "text", blocks=10, conversation=Conversation("t1", "other"))
        await hand.grant("l1", "abcd", blocks=30)

        await hand.grant("l2", "abcdef", blocks=40)

        assert await hand.orders() == {"l1": Reason.SUPERSEDED}

    async def test_blocks_that_leases_share_are_counted_once_where_their_owner_says_so(self, world: World) -> None:
        hand = await world.engine(blocks=100)
        await hand.grant("l1", "abcd1", blocks=30)
        await hand.grant("l2", "abcd2", blocks=20)
        await hand.beat(leased=32)

        await hand.grant("l3", "abcd3", blocks=10)
        assert await world.live() == ["l1", "l2", "l3"]
        await hand.grant("l4", "abcd4", blocks=10)

        assert await world.live() == ["l2", "l3", "l4"]

    async def test_prefills_leases_are_not_counted(self, world: World) -> None:
        hand = await world.engine(blocks=2)
        await hand.grant_prefill("p1", "ticket1")
        await hand.grant_prefill("p2", "ticket2")

        await hand.grant("l1", "text", blocks=1)

        assert await hand.orders() == {}

    async def test_a_tenant_has_no_more_live_leases_than_it_may(self, make: WorldMaker) -> None:
        world = make(replace(Rules(), tenant_leases=2))
        await world.calm()
        hand = await world.engine()
        await hand.grant("l1", "abcd")
        await hand.grant("o1", "abcd", conversation=Conversation("t1", "other"))
        await hand.grant("s1", "abcd", conversation=Conversation("t2", "other tenant"))

        with pytest.raises(TenantLimit):
            await hand.grant("x1", "abcd", conversation=Conversation("t1", "third"))

        await hand.grant("l2", "abcdefgh")
        assert await world.live() == ["l2"]

    async def test_leases_of_others_that_go_for_room_give_a_tenant_no_more_of_its_own(self, make: WorldMaker) -> None:
        world = make(replace(Rules(), tenant_leases=1))
        await world.calm()
        hand = await world.engine(blocks=100)
        for i in range(3):
            await hand.grant(f"o{i}", "abcd", blocks=15, conversation=Conversation(f"other {i}", "chat"))
        await hand.grant("l1", "abcd", blocks=5, conversation=Conversation("t1", "first"))

        with pytest.raises(TenantLimit):
            await hand.grant("l2", "abcd", blocks=15, conversation=Conversation("t1", "second"))

        assert await hand.orders() == {}

    async def test_a_conversation_goes_on_counting_after_its_leases_are_gone(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd")
        await hand.release("l1")

        assert (await hand.grant("l2", "abcd")).generation == 2

    async def test_what_is_gone_is_forgotten_in_time(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "abcd")
        await hand.release("l1")
        await hand.beat(freed=("l1",))

        await hand.passes(world.rules.tombstone)

        assert (await hand.grant("l1", "abcd")).generation == 1
        with pytest.raises(LeaseNotFound):
            await world.show("l2")
