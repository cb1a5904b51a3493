"""Restarts: a registry that has forgotten is told again, and frees nothing that may be read unknown to it."""

import pytest

from kvlease.registry.errors import BudgetExhausted, IncarnationMismatch, LeaseNotFound
from kvlease.registry.lease import EngineRef, Kind, Reason, State
from kvlease.registry.renewals import Renewal
from kvlease.registry.rules import Rules
from kvlease.registry.turns import TurnOutcome
from tests.registry.world import CHAT, World, WorldMaker


class RestartContract:
    async def test_another_life_has_another_boot_id(self, make: WorldMaker) -> None:
        lives = [await make(Rules()).engine() for _ in range(2)]

        assert lives[0].boot_id != lives[1].boot_id
        assert (await lives[0].beat()).boot_id == lives[0].boot_id

    async def test_an_announced_lease_can_be_claimed_at_once(self, fresh: World) -> None:
        hand, reader = await fresh.engine(), await fresh.engine("p0")

        (result,) = await hand.announce((hand.terms("l1"), 7, 20.0))

        assert (result.kept, result.generation) == (True, 7)
        assert (await reader.claim_by_id("l1")).lease.remaining == 20.0
        assert (await hand.grant("l2", "other")).generation == 8

    async def test_an_announced_lease_is_not_stretched_beyond_what_its_owner_knows(self, world: World) -> None:
        hand = await world.engine()
        await hand.announce((hand.terms("l1"), 1, 3.0))

        await hand.passes(3)

        assert (await world.show("l1")).reason is Reason.EXPIRED

    async def test_a_lease_that_is_known_keeps_what_is_known_of_it(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "text")
        await world.store.renew("t1", [Renewal(lease_id="l1", ttl=100.0)])

        await hand.announce((hand.terms("l1"), 1, 10.0))

        assert (await world.show("l1")).remaining == 100.0

    async def test_announcing_twice_changes_nothing(self, world: World) -> None:
        hand = await world.engine()

        results = [await hand.announce((hand.terms("l1"), 3, 10.0)) for _ in range(2)]

        assert results[0] == results[1]

    async def test_two_announcements_of_one_conversation_are_branches(self, world: World) -> None:
        d0, d1 = await world.engine("d0"), await world.engine("d1")

        (one,) = await d0.announce((d0.terms("l1"), 5, 10.0))
        (two,) = await d1.announce((d1.terms("l2"), 5, 10.0))

        assert await world.live() == ["l1", "l2"]
        assert (one.generation, two.generation) == (5, 6)

    async def test_an_announced_lease_that_is_over_is_to_be_freed(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("gone", "text")
        await hand.release("gone")

        results = await hand.announce((hand.terms("gone"), 1, 10.0), (hand.terms("late"), 1, 0.0))

        assert [x.kept for x in results] == [False, False]

    async def test_what_waits_to_be_freed_is_freed_by_its_announcement(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "text")
        await world.store.end_conversation(CHAT)
        await hand.open()

        (result,) = await hand.announce((hand.terms("l1"), 1, 10.0))

        assert not result.kept
        with pytest.raises(LeaseNotFound):
            await world.show("l1")

    async def test_prefills_lease_of_a_turn_that_is_over_is_to_be_freed(self, world: World) -> None:
        prefill = await world.engine("p0")
        await world.end_turn("t1", TurnOutcome.COMPLETED)
        terms = prefill.terms("p1", kind=Kind.PREFILL, ticket_id="t1")

        (result,) = await prefill.announce((terms, 0, 10.0))

        assert not result.kept

    async def test_an_announced_prefill_is_found_by_its_ticket(self, fresh: World) -> None:
        prefill, decode = await fresh.engine("p0"), await fresh.engine("d0")
        await prefill.announce((prefill.terms("p1", kind=Kind.PREFILL, ticket_id="t1"), 0, 10.0))

        assert (await decode.claim_prefill("t1")).lease.terms.lease_id == "p1"

    async def test_only_the_sessions_own_leases_are_announced(self, world: World) -> None:
        hand = await world.engine()

        with pytest.raises(IncarnationMismatch):
            await hand.announce((hand.terms("l1", engine=EngineRef("d0", "i0")), 1, 10.0))

    async def test_another_owners_lease_cannot_be_announced(self, world: World) -> None:
        hand, other = await world.engine(), await world.engine("d1")
        await hand.grant("l1", "text")

        (result,) = await other.announce((other.terms("l1"), 1, 10.0))

        assert not result.kept
        assert (await world.show("l1")).terms.handle.engine == hand.ref

    async def test_nothing_is_ordered_free_within_the_first_claim_length(self, fresh: World) -> None:
        hand = await fresh.engine()
        await hand.announce((hand.terms("l1"), 1, 20.0))
        await fresh.store.end_conversation(CHAT)

        await fresh.advance(4.9)
        assert await hand.orders() == {}
        assert (await fresh.show("l1")).state is State.RETIRING
        await fresh.advance(0.1)

        assert await hand.orders() == {"l1": Reason.ENDED}

    async def test_a_release_within_the_first_claim_length_is_answered_by_a_later_order(self, fresh: World) -> None:
        hand = await fresh.engine()
        await hand.announce((hand.terms("l1"), 1, 20.0))

        assert not await hand.release("l1")
        assert not await hand.release("unannounced")
        assert await hand.orders() == {}
        await fresh.calm()

        assert await hand.orders() == {"l1": Reason.RELEASED, "unannounced": Reason.RELEASED}
        assert await hand.orders(freed=("l1", "unannounced")) == {}

    async def test_a_lease_that_is_over_is_kept_for_the_first_claim_length(self, fresh: World) -> None:
        hand = await fresh.engine()

        (result,) = await hand.announce((hand.terms("l1"), 1, 0.0))
        assert result.kept
        await fresh.calm()

        assert await hand.orders() == {"l1": Reason.EXPIRED}

    async def test_a_grant_is_not_refused_within_the_first_claim_length_but_taken_back_after_it(
        self, fresh: World
    ) -> None:
        hand = await fresh.engine()

        granted = await hand.grant("l1", "text", blocks=1000)
        assert granted.remaining == 0.0
        assert await hand.orders() == {}
        await fresh.calm()

        assert await hand.orders() == {"l1": Reason.REVOKED}
        with pytest.raises(BudgetExhausted):
            await hand.grant("l2", "text", blocks=1000)

    async def test_a_reclaim_within_the_first_claim_length_revokes_nothing(self, fresh: World) -> None:
        hand = await fresh.engine()
        await hand.announce((hand.terms("l1"), 1, 20.0))

        await hand.beat(reclaim=10)

        assert await fresh.live() == ["l1"]
