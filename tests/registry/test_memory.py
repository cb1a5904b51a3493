"""The store in memory keeps the contract of stores."""

import asyncio
import time

import pytest

from kvlease.registry.lease import Conversation
from kvlease.registry.ledger import AT_ONCE
from kvlease.registry.memory import MemoryStore
from kvlease.registry.rules import Rules, Timing
from kvlease.registry.service import serve
from kvlease.registry.value import LeastRecentlyRenewed
from kvlease.v1 import registry_pb2
from tests.registry import contract, messages
from tests.registry.stores import WATCH_LIMIT, MemoryWorlds
from tests.registry.world import World, WorldMaker
from tests.support.clock import FakeClock, settle
from tests.support.servers import serving


@pytest.fixture
def make() -> WorldMaker:
    return MemoryWorlds()


async def test_callers_that_go_away_leave_nothing_behind() -> None:
    store = MemoryStore(
        Rules(),
        clock=time.monotonic,
        sleep=asyncio.sleep,
        token=lambda: "token",
        value=LeastRecentlyRenewed(),
        watch_limit=WATCH_LIMIT,
    )
    async with serving(serve(store, Timing())) as (_, channel):
        registry = messages.stub(channel)
        decode = await messages.opened(registry)
        watches = [registry.WatchLeases(registry_pb2.WatchLeasesRequest()) for _ in range(50)]
        for watch in watches:
            await watch.read()
        patient = messages.claim(decode, prefill_ticket_id="k", wait=messages.seconds(60))
        claim = registry.ClaimLease(patient)
        while store.waiting < 51:
            await registry.ListEngines(registry_pb2.ListEnginesRequest())

        for call in (*watches, claim):
            call.cancel()

        while store.waiting:
            await registry.ListEngines(registry_pb2.ListEnginesRequest())


async def test_a_renewed_claim_is_told_no_longer_than_it_lasts_though_much_is_due() -> None:
    clock = FakeClock()
    store = MemoryStore(
        Rules(),
        clock=clock,
        sleep=clock.sleep,
        token=lambda: f"token{clock.now}",
        value=LeastRecentlyRenewed(),
        watch_limit=WATCH_LIMIT,
    )

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    world = World(store, pass_time, Rules(), settle)
    hand = await world.engine(blocks=10_000)
    for i in range(3 * AT_ONCE):
        await hand.announce((hand.terms(f"x{i}", conversation=Conversation("t1", f"{i}")), 1, 1.0 + i / 1000))
    await hand.grant("l1", "abcd")
    await hand.claim("abcd", claim_id="c1")

    await world.advance(3.0)

    assert await hand.renew_claim("c1") < 5.0 - 1.5
    for _ in range(3):
        await world.live()
    assert await hand.renew_claim("c1") == 5.0


async def test_engines_are_not_lost_because_the_registry_stood_still(make: WorldMaker) -> None:
    world = make(Rules())
    assert isinstance(world.store, MemoryStore)
    running = asyncio.ensure_future(world.store.run())
    await settle()
    await world.engine("d0")

    await world.advance(4.0)  # in one leap, as after SIGSTOP and SIGCONT

    assert [shown.healthy for shown in await world.store.engines("", include_lost=True)] == [True]
    for _ in range(30):
        await world.advance(0.1)
    assert [shown.healthy for shown in await world.store.engines("", include_lost=True)] == [False]
    running.cancel()


class TestSessions(contract.SessionContract):
    pass


class TestGrants(contract.GrantContract):
    pass


class TestClaims(contract.ClaimContract):
    pass


class TestTurns(contract.TurnContract):
    pass


class TestRenewals(contract.RenewalContract):
    pass


class TestRestarts(contract.RestartContract):
    pass


class TestLists(contract.ListContract):
    pass


class TestWatch(contract.WatchContract):
    pass
