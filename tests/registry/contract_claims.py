"""Claims: what is found, how long it holds, that nothing outlives the owner's promise."""

import asyncio

import pytest

from kvlease.registry.claims import Branch
from kvlease.registry.errors import (
    ClaimLost,
    IdTaken,
    LeaseNotFound,
    NoLease,
    NoMatch,
    PrefillFailed,
    PrefillPending,
    PromiseTooShort,
    SessionNotFound,
)
from kvlease.registry.lease import Conversation, EngineRef, Reason, State
from kvlease.registry.session import Credential
from kvlease.registry.turns import TurnOutcome
from tests.registry.digests import prompt
from tests.registry.world import World


class ClaimContract:
    async def test_the_longest_matching_branch_is_claimed(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        await hand.grant("l2", "abcdXYZWijkl")

        claimed = await reader.claim("abcdXYZWijklmnop")

        assert (claimed.lease.terms.lease_id, claimed.matched_tokens, claimed.ttl) == ("l2", 12, 5.0)

    async def test_of_equal_matches_the_newest_is_claimed(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcd1")
        await hand.grant("l2", "abcd2")

        assert (await reader.claim("abcd3")).lease.terms.lease_id == "l2"

    async def test_a_match_is_found_at_any_of_the_given_boundaries(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefghijkl")
        whole = prompt("abcdefghIJKLmnop")
        sparse = whole._replace(strides=(1, 4), digests=whole.digests[:8] + whole.digests[24:])

        claimed = await world.store.claim(reader.credential, "c1", Branch(hand.terms("x").conversation, sparse), 0.0)

        assert claimed.matched_tokens == 4

    async def test_a_prompt_that_begins_like_no_branch_matches_nothing(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")

        with pytest.raises(NoMatch):
            await reader.claim("Xbcdefgh")

    @pytest.mark.parametrize("unlike", [{"key_id": "k2"}, {"stride": 2}])
    async def test_digests_of_another_kind_never_match(self, world: World, unlike: dict[str, str]) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        other = prompt("abcdefgh", **unlike)  # type: ignore[arg-type]

        with pytest.raises(NoMatch):
            await world.store.claim(reader.credential, "c1", Branch(hand.terms("x").conversation, other), 0.0)

    async def test_a_conversation_without_leases_has_none_to_claim(self, world: World) -> None:
        reader = await world.engine("p0")

        with pytest.raises(NoLease):
            await reader.claim("abcdefgh")

    async def test_another_tenants_conversation_of_the_same_name_is_another_one(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh", conversation=Conversation("t2", "chat"))

        with pytest.raises(NoLease):
            await reader.claim("abcdefgh")

    async def test_only_engines_with_a_session_claim(self, world: World) -> None:
        with pytest.raises(SessionNotFound):
            await world.store.claim(Credential("x", "y"), "c1", Branch(Conversation("t1", "chat"), prompt("abcd")), 0.0)

    async def test_a_retry_gets_the_same_claim(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        await reader.claim("abcdefgh", claim_id="c1")
        await hand.grant("l2", "abcdefghijkl")

        again = await reader.claim("abcdefgh", claim_id="c1")

        assert (again.lease.terms.lease_id, again.lease.claims) == ("l1", 1)

    async def test_a_claim_id_cannot_be_used_by_another_reader_or_for_something_else(self, world: World) -> None:
        hand, reader, other = await world.engine(), await world.engine("p0"), await world.engine("p1")
        await hand.grant("l1", "abcdefgh")
        await reader.claim("abcdefgh", claim_id="c1")

        with pytest.raises(IdTaken):
            await other.claim("abcdefgh", claim_id="c1")
        with pytest.raises(IdTaken):
            await reader.claim_by_id("l1", "c1")

    async def test_a_claim_is_no_longer_than_what_the_owner_promised(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")

        await world.advance(8.0)

        assert (await reader.claim("abcdefgh")).ttl == pytest.approx(3.0)

    async def test_an_answer_that_was_not_received_promises_nothing(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        for _ in range(8):
            await world.advance(1.0)
            await hand.beat(lost=True)

        assert (await reader.claim("abcdefgh")).ttl == pytest.approx(3.0)

    async def test_a_useless_claim_is_refused(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")

        await world.advance(10.5)

        with pytest.raises(PromiseTooShort):
            await reader.claim("abcdefgh")

    async def test_a_shorter_branch_of_a_punctual_owner_beats_a_longer_one_of_a_late_owner(self, world: World) -> None:
        late, hand, reader = await world.engine(), await world.engine("d1"), await world.engine("p0")
        await late.grant("l1", "abcdefgh1")
        await hand.grant("l2", "abcd2")
        for _ in range(10):
            await world.advance(1.0)
            await hand.beat()
            await reader.beat()
        await world.advance(0.5)

        assert (await reader.claim("abcdefgh")).lease.terms.lease_id == "l2"

    async def test_a_grant_proves_that_the_session_was_received(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.open()
        await hand.grant("l1", "abcdefgh")

        assert (await reader.claim("abcdefgh")).ttl == 5.0

    async def test_a_claim_can_be_renewed_as_long_as_the_owner_promises(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        await reader.claim("abcdefgh", claim_id="c1")

        await world.advance(4.0)
        assert await reader.renew_claim("c1") == pytest.approx(5.0)
        await world.advance(4.0)
        assert await reader.renew_claim("c1") == pytest.approx(3.0)
        await world.advance(2.9)
        assert await reader.renew_claim("c1") == pytest.approx(0.1)
        await world.advance(0.1)

        with pytest.raises(ClaimLost):
            await reader.renew_claim("c1")

    async def test_a_claim_that_nobody_renews_is_lost_at_its_end(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        await reader.claim("abcdefgh", claim_id="c1")

        await world.advance(5.0)

        with pytest.raises(ClaimLost):
            await reader.renew_claim("c1")

    async def test_a_claim_on_a_lease_out_of_use_can_still_be_renewed(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        await reader.claim("abcdefgh", claim_id="c1")
        await world.store.end_conversation(hand.terms("x").conversation)

        await world.advance(4.0)

        assert await reader.renew_claim("c1") == pytest.approx(5.0)

    async def test_a_lease_out_of_use_takes_no_new_claim(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        await reader.claim("abcdefgh")
        await world.store.end_conversation(hand.terms("x").conversation)

        with pytest.raises(NoLease):
            await reader.claim("abcdefgh")
        with pytest.raises(LeaseNotFound):
            await reader.claim_by_id("l1")

    async def test_a_lease_that_expires_under_a_claim_waits_for_its_end(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        for _ in range(58):
            await hand.passes(1)
            await reader.beat()
        await reader.claim("abcdefgh")

        await hand.passes(2)
        assert (await world.show("l1")).state is State.RETIRING
        await hand.passes(2)
        assert await hand.orders() == {}
        await world.advance(1.0)

        assert await hand.orders() == {"l1": Reason.EXPIRED}

    async def test_only_its_reader_renews_and_finishes_a_claim(self, world: World) -> None:
        hand, reader, other = await world.engine(), await world.engine("p0"), await world.engine("p1")
        await hand.grant("l1", "abcdefgh")
        await reader.claim("abcdefgh", claim_id="c1")

        with pytest.raises(ClaimLost):
            await other.renew_claim("c1")
        await other.finish("c1")

        assert (await world.show("l1")).claims == 1

    async def test_a_reader_with_a_new_session_keeps_its_claims(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        await reader.claim("abcdefgh", claim_id="c1")

        await reader.open()

        assert await reader.renew_claim("c1") == 5.0

    async def test_finishing_twice_or_what_is_unknown_is_fine(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")
        await reader.claim("abcdefgh", claim_id="c1")

        for claim_id in ("c1", "c1", "unknown"):
            await reader.finish(claim_id)

        assert (await world.show("l1")).claims == 0

    async def test_a_claim_by_id(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "abcdefgh")

        assert (await reader.claim_by_id("l1")).lease.terms.handle.body == b"body"
        with pytest.raises(LeaseNotFound):
            await reader.claim_by_id("l2")

    async def test_prefills_lease_is_claimed_by_its_ticket(self, world: World) -> None:
        prefill, decode = await world.engine("p0"), await world.engine("d0")
        await prefill.grant_prefill("p1", "ticket")

        assert (await decode.claim_prefill("ticket")).lease.terms.lease_id == "p1"

    async def test_a_claim_waits_until_prefill_publishes(self, world: World) -> None:
        prefill, decode = await world.engine("p0"), await world.engine("d0")
        waiting = asyncio.ensure_future(decode.claim_prefill("ticket", wait=10.0))
        await world.settle()

        await prefill.grant_prefill("p1", "ticket")

        assert (await waiting).lease.terms.lease_id == "p1"

    async def test_a_claim_on_prefill_ends_with_its_wait(self, world: World) -> None:
        decode = await world.engine("d0")
        waiting = asyncio.ensure_future(decode.claim_prefill("ticket", wait=2.0))
        await world.settle()

        await world.advance(1.9)
        assert not waiting.done()
        await world.advance(0.1)

        with pytest.raises(PrefillPending):
            await waiting

    @pytest.mark.parametrize("outcome", [TurnOutcome.PREFILL_FAILED, TurnOutcome.CANCELLED])
    async def test_a_claim_on_prefill_fails_when_the_turn_does(self, world: World, outcome: TurnOutcome) -> None:
        decode = await world.engine("d0")
        waiting = asyncio.ensure_future(decode.claim_prefill("ticket", wait=10.0))
        await world.settle()

        await world.end_turn("ticket", outcome)

        with pytest.raises(PrefillFailed):
            await waiting

    async def test_a_claim_on_prefill_fails_when_prefills_engine_is_lost(self, world: World) -> None:
        prefill, decode = await world.engine("p0"), await world.engine("d0")
        waiting = asyncio.ensure_future(decode.claim_prefill("ticket", of=prefill.ref, wait=60.0))
        await decode.passes(int(world.rules.timing.hold) - 1)
        assert not waiting.done()

        await decode.passes(int(world.rules.timing.claim) + 1)

        with pytest.raises(PrefillFailed):
            await waiting

    async def test_a_claim_on_prefill_fails_when_prefills_engine_was_started_again(self, world: World) -> None:
        prefill, decode = await world.engine("p0", "i1"), await world.engine("d0")
        await world.engine("p0", "i2")

        with pytest.raises(PrefillFailed):
            await decode.claim_prefill("ticket", of=prefill.ref)

    async def test_after_a_restart_prefills_engine_may_still_come_back(self, fresh: World) -> None:
        decode, of = await fresh.engine("d0"), EngineRef("p0", "i1")
        with pytest.raises(PrefillPending):
            await decode.claim_prefill("ticket", of=of)

        await decode.passes(int(fresh.rules.timing.hold))

        with pytest.raises(PrefillFailed):
            await decode.claim_prefill("ticket", of=of)

    async def test_prefills_lease_is_read_once_its_reader_has_finished(self, world: World) -> None:
        prefill, decode = await world.engine("p0"), await world.engine("d0")
        await prefill.grant_prefill("p1", "ticket")
        await decode.claim_prefill("ticket", claim_id="c1")

        await decode.finish("c1")

        assert await prefill.orders() == {"p1": Reason.READ}
        with pytest.raises(PrefillFailed):
            await decode.claim_prefill("ticket")

    async def test_prefills_lease_expires_when_nobody_reads_it(self, world: World) -> None:
        prefill = await world.engine("p0")
        assert (await prefill.grant_prefill("p1", "ticket")).remaining == 20.0

        await prefill.passes(20)

        assert (await world.show("p1")).reason is Reason.EXPIRED

    async def test_a_second_lease_of_the_same_prefill_replaces_the_first(self, world: World) -> None:
        prefill, decode = await world.engine("p0"), await world.engine("d0")
        await prefill.grant_prefill("p1", "ticket")

        await prefill.grant_prefill("p2", "ticket")

        assert (await decode.claim_prefill("ticket")).lease.terms.lease_id == "p2"
        assert await prefill.orders() == {"p1": Reason.SUPERSEDED}
