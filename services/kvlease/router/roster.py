"""The engines as the registry last told of them, kept fresh beside the requests."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from kvlease.router.errors import RegistryUnreachable
from kvlease.router.fleet import Fleet
from kvlease.router.registry import Registry, RegistryRefused

log = structlog.get_logger()


class Roster:
    """Holds the last fleet, for at most `stale` seconds; tells *updated* of each new one."""

    def __init__(
        self, registry: Registry, *, stale: float, updated: Callable[[Fleet], None], clock: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._stale = stale
        self._updated = updated
        self._clock = clock
        self._fleet: Fleet | None = None
        self._loading: asyncio.Task[None] | None = None
        self._cause = "it was not asked yet"

    @property
    def reachable(self) -> bool:
        """Tells whether the registry answered when it was asked last."""
        return not self._cause

    async def run(self, interval: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Refreshes every *interval* seconds, for ever."""
        while True:
            await self.refresh()
            await sleep(interval)

    async def refresh(self) -> None:
        """Asks the registry. Concurrent callers share one call. Keeps what is known when there is no answer."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._load())
        await asyncio.shield(self._loading)

    async def fleet(self, wait: float) -> Fleet:
        """Returns the fleet; when none is known, asks for it, at most *wait* seconds.

        Raises RegistryUnreachable when there is none that is young enough.
        """
        if self._fleet is None:
            await self.refresh_within(wait)
        if self._fleet is None:
            raise RegistryUnreachable(self._cause)
        if self._clock() - self._fleet.at >= self._stale:
            raise RegistryUnreachable(f"{self._cause}; the engines known are too old")
        return self._fleet

    async def refresh_within(self, wait: float) -> None:
        """Refreshes, but does not wait longer than *wait* seconds for it; it goes on by itself then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self.refresh()

    async def _load(self) -> None:
        asked = self._clock()  # what is told is no younger than this
        try:
            engines = await self._registry.engines()
        except (RegistryUnreachable, RegistryRefused) as error:
            if error.cause != self._cause:
                log.warning("engines not listed", cause=error.cause)
            self._cause = error.cause
            return
        except Exception:
            log.exception("engines not understood")  # a fault of ours must not end the polling
            self._cause = "engines not understood"
            return
        if not self.reachable:
            log.info("engines listed", engines=len(engines))
        self._cause = ""
        self._fleet = Fleet.of(engines, asked)
        self._updated(self._fleet)
