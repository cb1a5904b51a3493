"""Sessions: who is alive, what is promised, what is ordered."""

import pytest

from kvlease.registry.errors import (
    ClaimLost,
    EngineNotFound,
    LeaseNotFound,
    NoLease,
    NumberUnknown,
    SecretWrong,
    SessionNotFound,
)
from kvlease.registry.lease import Reason, State
from kvlease.registry.renewals import Renewal
from kvlease.registry.session import Credential
from kvlease.registry.sessions import Beat
from tests.registry.world import World


class SessionContract:
    async def test_a_call_needs_an_open_session_and_its_secret(self, world: World) -> None:
        hand = await world.engine()

        with pytest.raises(SessionNotFound):
            await world.store.heartbeat(Credential("unknown", "x"), Beat(0))
        with pytest.raises(SecretWrong):
            await world.store.heartbeat(Credential(hand.credential.session_id, "x"), Beat(0))

    async def test_answers_count_up(self, world: World) -> None:
        hand = await world.engine()

        numbers = [(await hand.beat()).number for _ in range(3)]

        assert numbers == [2, 3, 4]

    async def test_an_engine_is_drained_and_put_back_as_an_operator_says(self, world: World) -> None:
        hand = await world.engine()

        async def shown() -> list[tuple[bool, bool]]:
            return [(x.draining, x.healthy) for x in await world.store.engines("", include_lost=False)]

        await world.store.drain("d0", undo=False)
        await hand.beat()
        assert await shown() == [(True, False)]
        await world.store.drain("d0", undo=True)
        assert await shown() == [(False, True)]

    async def test_a_drained_engine_stays_so_until_it_is_started_again(self, world: World) -> None:
        hand = await world.engine("d0", "i1")
        await world.store.drain("d0", undo=False)

        await hand.open()
        assert [x.draining for x in await world.store.engines("", include_lost=False)] == [True]
        await world.engine("d0", "i2")
        assert [x.draining for x in await world.store.engines("", include_lost=False)] == [False]

    async def test_a_drained_engines_leases_are_claimed_and_granted(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "text")
        await world.store.drain("d0", undo=False)

        assert (await reader.claim("text")).lease.terms.lease_id == "l1"
        assert (await hand.grant("l2", "text and more")).generation == 2

    async def test_only_an_engine_with_a_session_is_drained(self, world: World) -> None:
        hand = await world.engine()
        await world.store.close_session(hand.credential)

        with pytest.raises(EngineNotFound):
            await world.store.drain("d0", undo=False)

    async def test_an_answer_that_was_not_sent_cannot_be_received(self, world: World) -> None:
        hand = await world.engine()

        with pytest.raises(NumberUnknown):
            await hand.beat(received=2)

    async def test_an_engine_that_is_silent_for_hold_is_gone_with_its_leases(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")

        await world.advance(world.rules.timing.hold)

        with pytest.raises(SessionNotFound):
            await hand.beat()
        with pytest.raises(LeaseNotFound):
            await world.show("l1")

    async def test_another_incarnation_ends_the_leases_of_the_one_before_at_once(self, world: World) -> None:
        old = await world.engine("d0", "i1")
        await old.grant("l1", "some text")

        await world.engine("d0", "i2")

        with pytest.raises(LeaseNotFound):
            await world.show("l1")
        with pytest.raises(SessionNotFound):
            await old.beat()

    async def test_but_those_that_are_read_only_when_their_claims_end_since_the_one_before_may_still_live(
        self, world: World
    ) -> None:
        old, reader = await world.engine("d0", "i1"), await world.engine("p0")
        await old.grant("l1", "some text")
        await reader.claim("some text", claim_id="c1")
        await world.engine("d0", "i2")

        with pytest.raises(NoLease):
            await reader.claim("some text")
        await old.open()
        (kept,) = await old.announce((old.terms("l1"), 1, 10.0))
        await reader.finish("c1")

        assert kept.kept
        assert await old.orders() == {"l1": Reason.OWNER_LOST}

    async def test_a_session_opened_again_keeps_leases_only_once_they_are_announced(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "some text")
        await hand.grant("l2", "other text")
        old = hand.credential

        await hand.open()
        await hand.announce((hand.terms("l1"), 1, 10.0))

        assert (await reader.claim("some text")).lease.terms.lease_id == "l1"
        with pytest.raises(SessionNotFound):
            await world.store.heartbeat(old, Beat(0))
        await hand.passes(world.rules.timing.hold)
        assert await world.live() == ["l1"]

    async def test_orders_are_repeated_until_an_answer_with_them_was_received(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")
        await hand.grant("l2", "some text and more", parent="l1")

        first = await hand.beat(lost=True)
        second = await hand.beat()
        third = await hand.beat()

        assert [dict(x.free) for x in (first, second, third)] == [{"l1": Reason.SUPERSEDED}] * 2 + [{}]

    async def test_a_lease_is_freed_when_its_owner_says_so(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")
        await world.store.end_conversation(hand.terms("l1").conversation)
        assert (await world.show("l1")).state is State.FREEING

        assert await hand.orders() == {"l1": Reason.ENDED}
        assert await hand.orders(freed=("l1",)) == {}

        with pytest.raises(LeaseNotFound):
            await world.show("l1")

    async def test_what_an_owner_was_told_to_free_and_never_names_is_forgotten(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")
        await world.store.end_conversation(hand.terms("l1").conversation)
        await hand.beat()

        await hand.passes(1 + world.rules.timing.hold)

        with pytest.raises(LeaseNotFound):
            await world.show("l1")

    async def test_an_owner_learns_what_remains_of_leases_that_others_renewed(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")
        await hand.passes(5)
        assert (await hand.beat()).remaining == []
        await world.store.renew("t1", [Renewal(lease_id="l1")])

        told = [await hand.beat(lost=True), await hand.beat(), await hand.beat()]

        assert [dict(x.remaining) for x in told] == [{"l1": 60.0}, {"l1": 60.0}, {}]

    async def test_nothing_remains_of_a_renewed_lease_that_is_out_of_use(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")
        await world.advance(1.0)
        await world.store.renew("t1", [Renewal(lease_id="l1")])
        await world.store.end_conversation(hand.terms("l1").conversation)

        answer = await hand.beat()

        assert (dict(answer.remaining), dict(answer.free)) == ({}, {"l1": Reason.ENDED})

    async def test_a_reclaim_revokes_the_least_recently_renewed_until_it_is_enough(self, world: World) -> None:
        hand = await world.engine()
        for i in range(4):
            await hand.grant(f"l{i}", f"{i} text", blocks=10)
            await hand.passes(1)
        await world.store.renew("t1", [Renewal(lease_id="l0")])

        answer = await hand.beat(reclaim=15)

        assert dict(answer.free) == {"l1": Reason.REVOKED, "l2": Reason.REVOKED}

    async def test_a_repeated_reclaim_counts_what_is_on_its_way(self, world: World) -> None:
        hand = await world.engine()
        for i in range(4):
            await hand.grant(f"l{i}", f"{i} text", blocks=10)

        await hand.beat(reclaim=10, lost=True)
        answer = await hand.beat(reclaim=10)

        assert dict(answer.free) == {"l0": Reason.REVOKED}

    async def test_a_reclaim_leaves_what_is_being_read(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l0", "read now", blocks=10)
        await hand.grant("l1", "not read", blocks=10)
        await reader.claim("read now")

        answer = await hand.beat(reclaim=100)

        assert dict(answer.free) == {"l1": Reason.REVOKED}

    async def test_a_closed_session_is_gone_and_so_are_its_leases(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "some text")

        await world.store.close_session(hand.credential)
        await world.store.close_session(hand.credential)

        with pytest.raises(SessionNotFound):
            await hand.beat()
        with pytest.raises(LeaseNotFound):
            await world.show("l1")

    async def test_a_closed_sessions_lease_waits_for_its_reader_within_the_promise(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "some text")
        await reader.claim("some text", claim_id="c1")

        await world.store.close_session(hand.credential)
        await world.advance(4.0)
        assert await reader.renew_claim("c1") == pytest.approx(5.0)
        assert (await world.show("l1")).state is State.RETIRING
        await reader.finish("c1")

        with pytest.raises(LeaseNotFound):
            await world.show("l1")

    async def test_an_owner_that_freed_a_lease_unasked_ends_its_claims(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "some text")
        await reader.claim("some text", claim_id="c1")

        await hand.beat(freed=("l1",))

        with pytest.raises(ClaimLost):
            await reader.renew_claim("c1")

    async def test_engines_are_listed_with_their_load_of_leases(self, world: World) -> None:
        hand, reader = await world.engine(blocks=200), await world.engine("p0")
        await hand.grant("l1", "some text", blocks=30)
        await hand.grant("l2", "other text", blocks=20)
        await reader.claim("some text")

        (shown, _) = await world.store.engines("m", include_lost=False)

        assert (shown.engine.ref, shown.healthy) == (hand.ref, True)
        assert (shown.leases, shown.leased_blocks, shown.claimed_blocks, shown.budget) == (2, 50, 30, 100)

    async def test_an_engine_that_missed_three_heartbeats_is_listed_only_if_asked_for(self, world: World) -> None:
        await world.engine()

        await world.advance(2.9)
        assert len(await world.store.engines("", include_lost=False)) == 1
        await world.advance(0.1)

        assert await world.store.engines("", include_lost=False) == []
        (shown,) = await world.store.engines("", include_lost=True)
        assert not shown.healthy
        assert shown.silent == pytest.approx(3.0)

    async def test_a_draining_engine_is_not_healthy(self, world: World) -> None:
        hand = await world.engine()

        await hand.beat(draining=True)

        (shown,) = await world.store.engines("", include_lost=False)
        assert (shown.healthy, shown.draining) == (False, True)

    async def test_engines_are_found_by_model(self, world: World) -> None:
        await world.engine()

        assert await world.store.engines("other", include_lost=True) == []
