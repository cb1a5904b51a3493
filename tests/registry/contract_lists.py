"""Reading: one lease, pages, filters; nothing of another tenant."""

import pytest

from kvlease.registry.errors import LeaseNotFound
from kvlease.registry.lease import Conversation, Kind, State
from kvlease.registry.lists import Filter
from tests.registry.world import CHAT, World


class ListContract:
    async def test_another_tenants_lease_is_not_found(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "text")

        with pytest.raises(LeaseNotFound):
            await world.store.get("t2", "l1")
        assert (await world.store.page(Filter("t2"), 0, 10)).leases == []

    async def test_a_lease_is_shown_with_lengths_of_time(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "text")
        await hand.passes(3)

        shown = await world.show("l1")

        assert (shown.age, shown.idle, shown.remaining, shown.claims) == (3.0, 3.0, 57.0, 0)

    async def test_pages_follow_one_another_oldest_first(self, world: World) -> None:
        hand = await world.engine()
        for i in range(5):
            await hand.grant(f"l{i}", "text", conversation=Conversation("t1", f"chat{i}"))

        seen, after = [], 0
        while True:
            page = await world.store.page(Filter("t1"), after, 2)
            seen.append([x.terms.lease_id for x in page.leases])
            after = page.next_after
            if not after:
                break

        assert seen == [["l0", "l1"], ["l2", "l3"], ["l4"]]

    async def test_a_page_goes_on_where_the_last_one_ended_even_if_that_lease_is_gone(self, world: World) -> None:
        hand = await world.engine()
        for i in range(3):
            await hand.grant(f"l{i}", "text", conversation=Conversation("t1", f"chat{i}"))
        first = await world.store.page(Filter("t1"), 0, 2)
        await hand.release("l1")

        second = await world.store.page(Filter("t1"), first.next_after, 2)

        assert [x.terms.lease_id for x in second.leases] == ["l2"]

    async def test_all_that_a_filter_names_must_hold(self, world: World) -> None:
        d0, d1 = await world.engine("d0"), await world.engine("d1")
        await d0.grant("l1", "1abc")
        await d1.grant("l2", "2abc")
        await d0.grant("l3", "3abc", conversation=Conversation("t1", "other"))
        await d0.grant_prefill("p1", "ticket")

        async def listed(**wanted: object) -> list[str]:
            page = await world.store.page(Filter("t1", **wanted), 0, 10)  # type: ignore[arg-type]
            return [x.terms.lease_id for x in page.leases]

        assert await listed() == ["l1", "l2", "l3", "p1"]
        assert await listed(conversation_id="chat") == ["l1", "l2"]
        assert await listed(engine_id="d0") == ["l1", "l3", "p1"]
        assert await listed(conversation_id="chat", engine_id="d1") == ["l2"]
        assert await listed(kind=Kind.PREFILL) == ["p1"]

    async def test_leases_out_of_use_are_listed_only_if_asked_for(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "text")
        await world.store.end_conversation(CHAT)

        assert await world.live() == []
        page = await world.store.page(Filter("t1", state=State.FREEING), 0, 10)
        assert [x.terms.lease_id for x in page.leases] == ["l1"]

    async def test_conversations_are_located_by_their_live_branches_in_the_order_asked_for(self, world: World) -> None:
        hand = await world.engine()
        other = Conversation("t1", "other")
        await hand.grant("l1", "text")
        await hand.grant("l2", "another text")
        await hand.grant("l3", "text", conversation=other)
        await hand.release("l1")

        nowhere, there, one = await world.store.locate([Conversation("t2", "chat"), other, CHAT])

        assert nowhere == []
        assert [x.generation for x in there] == [1]
        assert [(x.holder, x.generation) for x in one] == [(hand.ref, 2)]
