"""Two registries, two routers, two gateways: one service, also while each of them is killed."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.replicas.stack import Replicas, Talk, running
from tests.support.redis import RedisServer, redis_server

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replicas(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Replicas]:
    async with running(redis, tmp_path_factory.mktemp("replicas")) as made:
        yield made


async def test_turns_that_meet_another_replica_each_time_reuse_as_with_one_of_each(replicas: Replicas) -> None:
    talks = [Talk(replicas, f"c{i}") for i in range(3)]

    for turn in range(5):
        for talk in talks:
            kept = max(0, talk.total - 1)
            assert await talk.say(turn, f"Turn {turn}.") == kept

    assert not any(instance.engine.wrong_answers for instance in replicas.fleet.instances)


async def test_each_is_killed_under_load_and_no_request_fails(replicas: Replicas) -> None:
    over = asyncio.Event()
    talking = [asyncio.create_task(talk_until(over, Talk(replicas, f"c{i}"), i)) for i in range(4)]

    for pair in replicas.services.values():
        await asyncio.to_thread(pair[0].kill)
        await more_turns(replicas, talking)
        await asyncio.to_thread(pair[0].start)
        await more_turns(replicas, talking)
    replicas.redis.kill()
    await more_turns(replicas, talking)
    replicas.redis.start()
    await more_turns(replicas, talking)
    over.set()

    assert min(await asyncio.gather(*talking)) > 8
    assert not any(instance.engine.wrong_answers for instance in replicas.fleet.instances)
    async with asyncio.timeout(60):
        for i in range(100):
            if await Talk(replicas, f"again-{i}").reuses(i):
                return


async def talk_until(over: asyncio.Event, talk: Talk, gateway: int) -> int:
    """Talks through one gateway after the other; begins anew before its prompt is too long. Returns how many turns."""
    turns = 0
    while not over.is_set():
        await talk.say(gateway + turns, f"Turn {turns}.")
        turns += 1
        if turns % 20 == 0:
            talk = Talk(talk.replicas, f"{talk.name}-")
    return turns


async def more_turns(replicas: Replicas, talking: list["asyncio.Task[int]"]) -> None:
    """Waits until engines have answered some turns more. Raises what a request failed with."""
    enough = replicas.answered + 2 * len(talking)
    while replicas.answered < enough:
        for task in talking:
            if task.done():
                task.result()
        await asyncio.sleep(0.05)
