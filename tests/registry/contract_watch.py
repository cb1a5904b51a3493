"""Watching: what exists, then what happens, and an end for those who do not keep up."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from kvlease.registry.change import Event
from kvlease.registry.errors import WatcherTooSlow
from kvlease.registry.feed import Happened
from kvlease.registry.lease import Conversation, State
from kvlease.registry.lists import Filter
from kvlease.registry.renewals import Renewal
from tests.registry.world import CHAT, World


class Stopped(Exception):
    pass


async def told(watch: AsyncGenerator[Happened], events: int) -> list[tuple[Event, str]]:
    """The next events, with the ids of their leases."""
    happened = [await anext(watch) for _ in range(events)]
    return [(x.event, x.lease.terms.lease_id if x.lease else "") for x in happened]


class WatchContract:
    async def test_what_exists_comes_first_then_what_happens(self, world: World) -> None:
        hand, reader = await world.engine(), await world.engine("p0")
        await hand.grant("l1", "text")

        async with aclosing(world.store.watch(Filter("t1"))) as watch:
            assert await told(watch, 2) == [(Event.EXISTS, "l1"), (Event.SYNCED, "")]
            await hand.grant("l2", "more")
            await world.store.renew("t1", [Renewal(lease_id="l1")])
            await reader.claim("text", claim_id="c1")
            await reader.finish("c1")
            await world.store.end_conversation(CHAT)
            await hand.beat(freed=("l1",))

            assert await told(watch, 7) == [
                (Event.GRANTED, "l2"),
                (Event.RENEWED, "l1"),
                (Event.CLAIMED, "l1"),
                (Event.CLAIM_ENDED, "l1"),
                (Event.RETIRED, "l1"),
                (Event.RETIRED, "l2"),
                (Event.FREED, "l1"),
            ]

    async def test_an_event_shows_the_state_right_after_it(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "text")

        async with aclosing(world.store.watch(Filter("t1"))) as watch:
            await told(watch, 2)
            await hand.release("l1")
            await hand.beat(freed=("l1",))

            states = [x.lease.state for x in [await anext(watch), await anext(watch)] if x.lease]
        assert states == [State.RETIRING, State.FREED]

    async def test_only_what_was_asked_for_is_told(self, world: World) -> None:
        hand = await world.engine()

        async with aclosing(world.store.watch(Filter("t1", conversation_id="chat"))) as watch:
            await told(watch, 1)
            await hand.grant("o1", "text", conversation=Conversation("t1", "other"))
            await hand.grant("s1", "text", conversation=Conversation("t2", "chat"))
            await hand.grant("l1", "text")

            assert await told(watch, 1) == [(Event.GRANTED, "l1")]

    async def test_the_registry_itself_may_follow_all_tenants(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("before", "text")

        async with aclosing(world.store.follow()) as everything:
            first = asyncio.ensure_future(told(everything, 1))
            await world.settle()
            await hand.grant("l1", "text", conversation=Conversation("t1", "other"))
            await hand.grant("l2", "text", conversation=Conversation("t2", "chat"))

            assert await first == [(Event.GRANTED, "l1")]
            assert await told(everything, 1) == [(Event.GRANTED, "l2")]

    async def test_an_expiry_is_told_when_nobody_calls(self, world: World) -> None:
        hand = await world.engine()
        await hand.announce((hand.terms("l1"), 1, 2.0))

        async with aclosing(world.store.watch(Filter("t1"))) as watch:
            await told(watch, 2)
            await world.advance(2.0)

            assert await told(watch, 1) == [(Event.RETIRED, "l1")]

    async def test_a_watcher_that_does_not_keep_up_is_told_so(self, world: World) -> None:
        hand = await world.engine()
        await hand.grant("l1", "text")

        async with aclosing(world.store.watch(Filter("t1"))) as watch:
            await told(watch, 2)
            for _ in range(101):
                await world.store.renew("t1", [Renewal(lease_id="l1")])
            await world.settle()

            with pytest.raises(WatcherTooSlow):
                await told(watch, 1)

    async def test_a_stopping_store_ends_waits_and_watches(self, world: World) -> None:
        decode = await world.engine("d0")
        waiting = asyncio.ensure_future(decode.claim_prefill("ticket", wait=10.0))
        async with aclosing(world.store.watch(Filter("t1"))) as watch:
            await told(watch, 1)
            watching = asyncio.ensure_future(told(watch, 1))
            await world.settle()

            world.store.stop_waiting(Stopped)

            for task in (waiting, watching):
                with pytest.raises(Stopped):
                    await task
        with pytest.raises(Stopped):
            await decode.claim_prefill("ticket", wait=10.0)
