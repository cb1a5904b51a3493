"""The rules in Lua and those in Python are the same: whatever is done in whatever order, both answer alike."""

from collections.abc import Iterator

import pytest

from kvlease.registry.rules import Rules
from tests.registry.stores import MemoryWorlds, RedisWorlds
from tests.registry.twins import Draw, Twin
from tests.support.redis import RedisServer, redis_server

RULES = Rules(answered_ttl=8.0, tools_ttl=20.0, prefill_ttl=8.0, longest_life=30.0, branches=2, tenant_leases=4)
STEPS, LOOK_EVERY = 200, 4


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.mark.parametrize("value", ["recent", "return"])
@pytest.mark.parametrize("seed", range(6))
async def test_both_answer_alike(redis: RedisServer, value: str, seed: int) -> None:
    shared = RedisWorlds(redis, value)
    twins = [Twin(MemoryWorlds(value)(RULES)), Twin(shared(RULES))]
    for twin in twins:
        await twin.start()
    draw, done = Draw(seed), []
    for i in range(STEPS):
        done.append(draw.step())
        ours, theirs = [await twin.do(done[-1]) for twin in twins]
        assert ours == theirs, done[-5:]
        if i % LOOK_EVERY == 0:
            ours, theirs = [await twin.state() for twin in twins]
            assert ours == theirs, done[-LOOK_EVERY:]
    await shared.close()
