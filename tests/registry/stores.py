"""Worlds over each kind of store, on time that passes only here."""

import asyncio
import math
from collections.abc import Sequence
from itertools import count

from kvlease.registry.memory import MemoryStore
from kvlease.registry.redis.reckoning import Reckoning
from kvlease.registry.redis.scripts import build
from kvlease.registry.redis.store import RedisStore, Where
from kvlease.registry.rules import Rules
from kvlease.registry.stores import VALUES
from tests.registry.world import World
from tests.support.clock import FakeClock, settle
from tests.support.redis import RedisServer

WATCH_LIMIT = 100
TIMEOUT = 60.0
TOLD_TIME = "return tonumber(call('GET', KEYS[1] .. ':clock'))"


class MemoryWorlds:
    """Makes stores in memory on clocks of their own; names are counted up across all of them."""

    def __init__(self, value: str = "recent") -> None:
        self._names = count()
        self._value = value

    def __call__(self, rules: Rules) -> World:
        clock = FakeClock()
        store = MemoryStore(
            rules,
            clock=clock,
            sleep=clock.sleep,
            token=lambda: f"token{next(self._names)}",
            value=VALUES[self._value](),
            watch_limit=WATCH_LIMIT,
        )

        async def pass_time(seconds: float) -> None:
            clock.advance(seconds)
            store.advance()
            await settle()

        return World(store, pass_time, rules, settle)


class RedisWorlds:
    """Makes stores in Redis, each under a prefix of its own, whose time is what a key says."""

    def __init__(self, server: RedisServer, value: str = "recent") -> None:
        self._server = server
        self._client = server.client()
        self._client.flushall()
        self._names = count()
        self._value = value
        self._stores: list[RedisStore] = []

    def __call__(self, rules: Rules) -> World:
        prefix, clock = f"test{next(self._names)}", FakeClock()
        store = self.store(prefix, rules, clock)
        self.tell_time(prefix, clock.now)

        async def pass_time(seconds: float) -> None:
            await store.tick()  # the store has begun before
            self.tell_time(prefix, clock.now + seconds)
            clock.advance(seconds)
            await store.tick()
            await heard()

        async def heard() -> None:
            await settle()
            await asyncio.sleep(0.005)  # the answers of calls on their way; nothing depends on it
            await store.catch_up()
            await settle()

        return World(store, pass_time, rules, heard)

    def tell_time(self, prefix: str, now: float) -> None:
        """Sets what time it is for the scripts."""
        self._client.set(f"{{{prefix}}}:clock", repr(now))

    def store(
        self,
        prefix: str,
        rules: Rules,
        clock: FakeClock,
        *,
        urls: Sequence[str] = (),
        timeout: float = TIMEOUT,
        slack: float = math.inf,
    ) -> RedisStore:
        """Makes one registry's store, here or elsewhere."""
        store = RedisStore(
            Where(urls=urls or [self._server.url], prefix=prefix, timeout=timeout),
            rules,
            build(rules, self._value, clock=TOLD_TIME),
            clock=clock,
            sleep=clock.sleep,
            token=lambda: f"token{next(self._names)}",
            watch_limit=WATCH_LIMIT,
            reckoning=Reckoning(slack),
        )
        self._stores.append(store)
        return store

    async def close(self) -> None:
        """Closes all stores."""
        for store in self._stores:
            await store.close()
        self._client.close()
