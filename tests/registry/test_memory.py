"""The store in memory keeps the contract of stores."""

import asyncio
import time
from itertools import count

import pytest

from kvlease.registry.memory import MemoryStore
from kvlease.registry.rules import Rules, Timing
from kvlease.registry.service import serve
from kvlease.registry.value import LeastRecentlyRenewed
from kvlease.v1 import registry_pb2
from tests.registry import contract, messages
from tests.registry.world import World, WorldMaker
from tests.support.clock import FakeClock, settle
from tests.support.servers import serving

WATCH_LIMIT = 100


@pytest.fixture
def make() -> WorldMaker:
    """Makes stores on clocks of their own; names are counted up across all of them."""
    names = count()

    def made(rules: Rules) -> World:
        clock = FakeClock()
        store = MemoryStore(
            rules,
            clock=clock,
            sleep=clock.sleep,
            token=lambda: f"token{next(names)}",
            value=LeastRecentlyRenewed(),
            watch_limit=WATCH_LIMIT,
        )

        async def pass_time(seconds: float) -> None:
            clock.advance(seconds)
            store.advance()
            await settle()

        return World(store, pass_time, rules, settle)

    return made


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
