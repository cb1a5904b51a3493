"""The store that the settings name."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import structlog

from kvlease.registry.expectation import ExpectedReturn
from kvlease.registry.memory import MemoryStore
from kvlease.registry.settings import HABITS, MEMORY, RECENT, RETURN, Settings
from kvlease.registry.store import Store
from kvlease.registry.value import LeastRecentlyRenewed, LikelyReturn, Value

TOKEN_BYTES = 16
VALUES: Mapping[str, Callable[[], Value]] = MappingProxyType(
    {HABITS: ExpectedReturn, RETURN: LikelyReturn, RECENT: LeastRecentlyRenewed}
)

log = structlog.get_logger()


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Store]:
    """Gives the store, and lets its time pass until left.

    Raises:
        StoreUnreachable: the shared store is not there, or not fit to be used.
        ValueError: a shared store was named, and cannot be had here.
    """
    async with _memory(settings) if settings.store == MEMORY else _redis(settings) as store:
        yield store


@asynccontextmanager
async def _memory(settings: Settings) -> AsyncIterator[Store]:
    store = MemoryStore(
        settings.rules,
        clock=time.monotonic,
        sleep=asyncio.sleep,
        token=_token,
        value=_value(settings),
        watch_limit=settings.watch_limit,
    )
    async with _running(store.run()):
        yield store


@asynccontextmanager
async def _redis(settings: Settings) -> AsyncIterator[Store]:
    try:
        from kvlease.registry.redis.reckoning import Reckoning  # noqa: PLC0415 - an extra, seldom installed
        from kvlease.registry.redis.scripts import build  # noqa: PLC0415
        from kvlease.registry.redis.store import RedisStore, Where  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise ValueError("a shared store needs redis-py: pip install 'kvlease[redis]'") from missing
    store = RedisStore(
        Where(urls=settings.store.split(","), prefix=settings.store_prefix, timeout=settings.store_timeout),
        settings.rules,
        build(settings.rules, settings.policy),
        clock=time.monotonic,
        sleep=asyncio.sleep,
        token=_token,
        watch_limit=settings.watch_limit,
        reckoning=Reckoning(),
    )
    try:
        await store.start()
        async with _running(store.run()):
            yield store
    finally:
        await store.close()


@asynccontextmanager
async def _running(run: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    running = asyncio.create_task(run)
    running.add_done_callback(_tell)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])


def _tell(running: asyncio.Task[None]) -> None:
    """Tells if time stopped passing by a fault; calls still bring the registry up to now."""
    if not running.cancelled() and running.exception():
        log.error("time passes with calls only", exc_info=running.exception())


def _value(settings: Settings) -> Value:
    return ExpectedReturn(patience=settings.patience) if settings.policy == HABITS else VALUES[settings.policy]()


def _token() -> str:
    return secrets.token_hex(TOKEN_BYTES)
