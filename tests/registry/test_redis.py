"""The store in Redis keeps the contract of stores."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from kvlease.registry.redis.reckoning import Reckoning
from kvlease.registry.redis.scripts import build
from kvlease.registry.redis.store import RedisStore, Where
from kvlease.registry.rules import Rules
from tests.registry import contract
from tests.registry.world import World, WorldMaker
from tests.support.clock import FakeClock, settle
from tests.support.redis import RedisServer, redis_server

WATCH_LIMIT = 100
TIMEOUT = 60.0
TOLD_TIME = "return tonumber(call('GET', KEYS[1] .. ':clock'))"


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
async def make(redis: RedisServer) -> AsyncIterator[WorldMaker]:
    """Makes stores under prefixes of their own, whose time is what a key says."""
    names, stores = count(), list[RedisStore]()

    def made(rules: Rules) -> World:
        prefix, clock = f"test{next(names)}", FakeClock()
        store = RedisStore(
            Where(urls=[redis.url], prefix=prefix, timeout=TIMEOUT),
            rules,
            build(rules, "recent", clock=TOLD_TIME),
            clock=clock,
            sleep=clock.sleep,
            token=lambda: f"token{next(names)}",
            watch_limit=WATCH_LIMIT,
            reckoning=Reckoning(slack=math.inf),
        )
        stores.append(store)
        told.set(f"{{{prefix}}}:clock", clock.now)

        async def pass_time(seconds: float) -> None:
            await store.tick()  # the store has begun before
            told.set(f"{{{prefix}}}:clock", clock.now + seconds)
            clock.advance(seconds)
            await store.tick()
            await heard()

        async def heard() -> None:
            await settle()
            await asyncio.sleep(0.005)  # the answers of calls on their way; nothing depends on it
            await store.catch_up()
            await settle()

        return World(store, pass_time, rules, heard)

    with redis.client() as told:
        told.flushall()
        yield made
    for store in stores:
        await store.close()


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
