"""Several registries on one Redis, and what may happen to that."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing

import pytest

from kvlease.registry.change import Event
from kvlease.registry.errors import LeaseNotFound, SessionNotFound, StoreUnreachable
from kvlease.registry.lease import Conversation, Reason
from kvlease.registry.lists import Filter
from kvlease.registry.redis import store
from kvlease.registry.redis.reach import ScriptFault
from kvlease.registry.redis.store import RedisStore
from kvlease.registry.rules import Rules, Timing
from tests.registry.stores import RedisWorlds
from tests.registry.twins import Draw, Twin
from tests.registry.world import CHAT, Hand, World
from tests.support.clock import FakeClock, settle
from tests.support.redis import RedisServer, redis_server

SHORT = 0.5
PREFIX = "shared"


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def worlds(redis: RedisServer, clock: FakeClock) -> AsyncIterator[RedisWorlds]:
    made = RedisWorlds(redis)
    made.tell_time(PREFIX, clock.now)
    yield made
    await made.close()


Registry = Callable[..., World]


@pytest.fixture
def registry(worlds: RedisWorlds, clock: FakeClock) -> Registry:
    """Makes one registry more, on the same keys and the same time."""

    def made(rules: Rules | None = None, **more: object) -> World:
        rules = rules or Rules()
        store = worlds.store(PREFIX, rules, clock, **more)  # type: ignore[arg-type]

        async def pass_time(seconds: float) -> None:
            worlds.tell_time(PREFIX, clock.now + seconds)
            clock.advance(seconds)
            await store.tick()

        return World(store, pass_time, rules, settle)

    return made


@pytest.fixture
async def pair(registry: Registry) -> tuple[World, World]:
    """Two registries that have just become calm."""
    one, other = registry(), registry()
    for world in (one, other):
        await world.store.engines("", include_lost=True)
    await one.calm()
    return one, other


def at(world: World, hand: Hand) -> Hand:
    """The same engine, calling another registry."""
    moved = Hand(world, hand.ref, hand.blocks, hand.received)
    moved.credential = hand.credential
    return moved


async def unreachable(world: World) -> None:
    """Calls until the registry says that its store is lost."""
    while await reached(world):
        pass


async def reachable(world: World) -> None:
    """Calls until it is back."""
    await until(lambda: reached(world))


async def reached(world: World) -> bool:
    try:
        await world.store.engines("", include_lost=True)
    except StoreUnreachable:
        return False
    return True


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Asks until it holds: it will, by what others do."""
    while not await holds():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def somebody_waits(at: World) -> None:
    """Returns when a call waits at a registry."""

    async def waits() -> bool:
        assert isinstance(at.store, RedisStore)
        return at.store.waiting > 0

    await until(waits)


async def test_an_engine_may_send_every_call_to_another_registry(pair: tuple[World, World]) -> None:
    one, other = pair
    hand, reader = await one.engine(), await other.engine("p0")
    await at(other, hand).grant("l1", "abcd")
    await at(one, reader).claim("abcd", claim_id="c1")
    await other.store.end_conversation(CHAT)
    await reader.finish("c1")

    assert await at(other, hand).orders() == {"l1": Reason.ENDED}
    await hand.beat(received=2, freed=("l1",))
    with pytest.raises(LeaseNotFound):
        await other.show("l1")


async def test_a_claim_that_waits_hears_of_a_grant_at_another_registry(pair: tuple[World, World]) -> None:
    one, other = pair
    prefill, decode = await one.engine("p0"), await other.engine("d0")
    waiting = asyncio.ensure_future(decode.claim_prefill("ticket", wait=60.0))
    await somebody_waits(other)

    await prefill.grant_prefill("p1", "ticket")

    assert (await waiting).lease.terms.lease_id == "p1"


async def test_a_release_that_waits_hears_of_a_read_that_ended_at_another_registry(pair: tuple[World, World]) -> None:
    one, other = pair
    hand, reader = await one.engine(), await other.engine("p0")
    await hand.grant("l1", "abcd")
    await reader.claim("abcd", claim_id="c1")
    waiting = asyncio.ensure_future(hand.release("l1", wait=10.0))
    await somebody_waits(one)

    await reader.finish("c1")

    assert await waiting


async def test_a_watch_tells_what_happens_at_another_registry(pair: tuple[World, World]) -> None:
    one, other = pair
    hand = await one.engine()
    async with aclosing(other.store.watch(Filter("t1"))) as watch:
        assert (await anext(watch)).event is Event.SYNCED
        await hand.grant("l1", "abcd")

        happened = await anext(watch)

    assert happened.lease
    assert (happened.event, happened.lease.terms.lease_id) == (Event.GRANTED, "l1")


async def test_a_redis_that_comes_back_empty_is_a_new_life_that_orders_nothing_free_at_first(
    redis: RedisServer, registry: Registry, worlds: RedisWorlds, clock: FakeClock
) -> None:
    world = registry()
    await world.calm()
    hand = await world.engine()
    await hand.grant("l1", "abcd")

    redis.kill()
    await unreachable(world)
    redis.start()
    worlds.tell_time(PREFIX, clock.now)
    await reachable(world)

    with pytest.raises(SessionNotFound):
        await hand.beat()
    before = hand.boot_id
    await hand.open()
    assert hand.boot_id != before
    await hand.announce((hand.terms("l1"), 1, 50.0))
    await world.store.end_conversation(CHAT)
    assert await hand.orders() == {}
    await world.calm()
    assert await hand.orders() == {"l1": Reason.ENDED}


async def test_a_redis_that_was_emptied_under_way_is_a_new_life_too(
    redis: RedisServer, registry: Registry, worlds: RedisWorlds, clock: FakeClock
) -> None:
    world = registry()
    hand = await world.engine()
    redis.cli("flushall")
    worlds.tell_time(PREFIX, clock.now)

    with pytest.raises(SessionNotFound):
        await hand.beat()

    before = hand.boot_id
    await hand.open()
    assert hand.boot_id != before


async def test_a_life_before_is_not_carried_on_by_another_server(redis: RedisServer, registry: Registry) -> None:
    redis.cli("config", "set", "repl-diskless-sync-delay", "0")
    with redis_server("--replicaof", "127.0.0.1", str(redis.port)) as replica:
        world = registry(urls=[redis.url, replica.url])
        hand = await world.engine()

        async def replicated() -> bool:
            return f"{{{PREFIX}}}:{hand.boot_id}:e:d0" in replica.cli("keys", "*")

        await until(replicated)
        replica.cli("replicaof", "no", "one")
        redis.kill()
        await unreachable(world)
        await reachable(world)

        with pytest.raises(SessionNotFound):
            await hand.beat()
    redis.start()


async def test_watches_end_and_waits_go_on_when_the_store_is_lost(redis: RedisServer, registry: Registry) -> None:
    world = registry()
    decode = await world.engine("d0")
    waiting = asyncio.ensure_future(decode.claim_prefill("ticket", wait=60.0))
    async with aclosing(world.store.watch(Filter("t1"))) as watch:
        await anext(watch)
        redis.cli("client", "kill", "type", "normal")
        redis.cli("client", "kill", "type", "pubsub")

        with pytest.raises(StoreUnreachable):
            await anext(watch)

    prefill = await again(world, "p0")
    await prefill.grant_prefill("p1", "ticket")
    assert (await waiting).lease.terms.lease_id == "p1"


async def again(world: World, engine_id: str) -> Hand:
    await reachable(world)
    return await world.engine(engine_id)


async def test_a_frozen_redis_is_told_in_time_and_nothing_is_lost_by_it(redis: RedisServer, registry: Registry) -> None:
    world = registry(timeout=SHORT)
    hand = await world.engine()

    redis.send_signal(signal.SIGSTOP)
    for _ in range(2):
        with pytest.raises(StoreUnreachable):
            await hand.beat()
    redis.send_signal(signal.SIGCONT)
    await reachable(world)

    assert (await hand.beat()).boot_id == hand.boot_id


async def test_a_clock_that_was_set_ends_the_life_that_was_counted_by_it(
    registry: Registry, worlds: RedisWorlds, clock: FakeClock
) -> None:
    world = registry(slack=0.02)
    hand = await world.engine()
    worlds.tell_time(PREFIX, clock.now + 3.0)

    with pytest.raises(StoreUnreachable):
        await hand.beat()

    with pytest.raises(SessionNotFound):
        await hand.beat()


@pytest.mark.parametrize("passed", [-1.0, 4.0])
async def test_a_registry_that_starts_trusts_no_clock_that_nobody_has_watched(
    registry: Registry, worlds: RedisWorlds, clock: FakeClock, passed: float
) -> None:
    hand = await registry().engine()
    worlds.tell_time(PREFIX, clock.now + passed)

    await registry().store.engines("", include_lost=True)

    with pytest.raises(SessionNotFound):
        await hand.beat()


async def test_engines_are_not_lost_because_no_registry_was_there_to_hear_them(
    registry: Registry, worlds: RedisWorlds, clock: FakeClock
) -> None:
    rules = Rules()
    overdue = rules.missed_heartbeats * rules.timing.heartbeat
    before = registry()
    await before.engine()
    await before.advance(0.9)
    worlds.tell_time(PREFIX, clock.now + 2.9)

    back = registry()
    [shown] = await back.store.engines("", include_lost=True)

    assert shown.silent > overdue
    assert shown.healthy
    clock.advance(2.9)
    await back.advance(overdue)
    [shown] = await back.store.engines("", include_lost=True)
    assert not shown.healthy


async def test_a_registry_that_starts_beside_others_excuses_no_engine(registry: Registry) -> None:
    world = registry()
    await world.engine()
    for _ in range(4):
        await world.advance(1.0)

    [shown] = await registry().store.engines("", include_lost=True)

    assert not shown.healthy


async def test_a_registry_that_starts_beside_others_changes_nothing(registry: Registry) -> None:
    world = registry()
    hand = await world.engine()
    await world.advance(2.0)

    assert len(await registry().store.engines("", include_lost=True)) == 1
    assert (await hand.beat()).boot_id == hand.boot_id


async def test_the_last_registry_to_start_decides_the_rules_and_the_others_serve_no_more(registry: Registry) -> None:
    one, other = registry(), registry(Rules(timing=Timing(claim=4.0)))
    await one.engine()

    await other.engine()

    for _ in range(2):
        with pytest.raises(StoreUnreachable):
            await one.store.engines("", include_lost=True)
    assert len(await other.store.engines("", include_lost=True)) == 1


async def test_whatever_is_stored_expires_by_itself(redis: RedisServer, registry: Registry) -> None:
    twin, draw = Twin(registry()), Draw(1)
    await twin.start()

    for _ in range(100):
        await twin.do(draw.step())

    with redis.client() as client:
        keys = [key for key in client.scan_iter(count=1000) if key != f"{{{PREFIX}}}:clock".encode()]
        assert len(keys) > 10
        assert [key for key in keys if client.ttl(key) < 0] == []


async def test_a_deployment_left_alone_is_forgotten_but_for_its_boot(redis: RedisServer, registry: Registry) -> None:
    twin, draw = Twin(registry()), Draw(2)
    await twin.start()
    for _ in range(100):
        await twin.do(draw.step())

    await twin.world.advance(100_000.0)

    with redis.client() as client:
        left = {key.decode().rsplit(":", 1)[0] for key in client.scan_iter()}
    assert left == {f"{{{PREFIX}}}"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"), "volatile-lru"),
        (("--replicaof", "127.0.0.1", "1"), "replica"),
    ],
)
async def test_a_server_that_is_not_fit_is_refused_at_the_start(
    worlds: RedisWorlds, clock: FakeClock, options: tuple[str, ...], why: str
) -> None:
    with redis_server(*options) as server:
        store = worlds.store(PREFIX, Rules(), clock, urls=[server.url])

        with pytest.raises(StoreUnreachable, match=why):
            await store.start()


async def test_in_a_cluster_the_keys_are_found_where_they_are(worlds: RedisWorlds, clock: FakeClock) -> None:
    with redis_server("--cluster-enabled", "yes") as empty, redis_server("--cluster-enabled", "yes") as full:
        full.cli("cluster", "addslotsrange", "0", "16383")
        empty.cli("cluster", "meet", "127.0.0.1", str(full.port))

        async def up() -> bool:
            return full.cli("set", f"{{{PREFIX}}}:clock", str(clock.now)) == "OK"

        await until(up)
        store = worlds.store(PREFIX, Rules(), clock, urls=[empty.url])
        twin, draw = Twin(World(store, lambda _: settle(), Rules(), settle)), Draw(3)

        await reachable(twin.world)
        await twin.start()
        for _ in range(60):
            await twin.do(draw.step())

        assert full.cli("dbsize") != empty.cli("dbsize") == "0"


async def test_a_fault_in_a_script_is_ours_and_changes_nothing(redis: RedisServer, registry: Registry) -> None:
    world = registry()
    hand = await world.engine()
    await hand.grant("l1", "abcd")
    with redis.client() as client:
        client.set(f"{{{PREFIX}}}:{hand.boot_id}:k:2 t1chat", b"\x93")  # what no script has packed
        before = client.get(f"{{{PREFIX}}}:{hand.boot_id}:s:{hand.credential.session_id}")

        with pytest.raises(ScriptFault):
            await hand.grant("l2", "more")

        assert client.get(f"{{{PREFIX}}}:{hand.boot_id}:s:{hand.credential.session_id}") == before
    assert (await world.show("l1")).terms.lease_id == "l1"


async def test_a_watch_shows_many_leases_part_by_part(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PART", 2)
    world = registry()
    hand = await world.engine()
    for i in range(5):
        await hand.grant(f"l{i}", "text", conversation=Conversation("t1", f"chat{i}"))

    async with aclosing(world.store.watch(Filter("t1"))) as watch:
        told = [await anext(watch) for _ in range(6)]

    assert [x.lease.terms.lease_id for x in told if x.lease] == [f"l{i}" for i in range(5)]
    assert told[-1].event is Event.SYNCED


async def test_a_redis_that_is_full_is_unreachable_until_it_has_room(redis: RedisServer, registry: Registry) -> None:
    world = registry()
    hand = await world.engine()
    redis.cli("config", "set", "maxmemory", "1")

    with pytest.raises(StoreUnreachable):
        await hand.grant("l1", "abcd")
    redis.cli("config", "set", "maxmemory", "0")

    assert (await hand.grant("l1", "abcd")).generation == 1
