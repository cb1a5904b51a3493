"""The store in Redis keeps the contract of stores."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.registry import contract
from tests.registry.stores import RedisWorlds
from tests.registry.world import WorldMaker
from tests.support.redis import RedisServer, redis_server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
async def make(redis: RedisServer) -> AsyncIterator[WorldMaker]:
    worlds = RedisWorlds(redis)
    yield worlds
    await worlds.close()


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
