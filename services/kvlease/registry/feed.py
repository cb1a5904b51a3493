"""Changes on their way to those who wait for one and to those who watch them all."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from kvlease.registry.change import Event, Topic
from kvlease.registry.errors import WatcherTooSlow
from kvlease.registry.lease import State, Terms
from kvlease.registry.leases import Lease
from kvlease.registry.lists import Filter
from kvlease.registry.shown import Shown


@dataclass(frozen=True, slots=True)
class Happened:
    """An event, with the lease right after it; SYNCED has none."""

    event: Event
    lease: Shown | None


class Watcher:
    """One watch, of a tenant's leases or (for the registry itself) of all.

    Holds at most so many events that were not taken yet; more end it.
    """

    def __init__(self, wanted: Filter | None, limit: int) -> None:
        self._wanted = wanted
        self.tenant = wanted.tenant if wanted else None
        self._limit = limit
        self._events: deque[Happened] = deque()
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def takes(self, lease: Terms | Lease, state: State) -> bool:
        """Tells whether a lease in that state is watched."""
        return self._wanted is None or self._wanted.takes(lease, state)

    def put(self, happened: Happened) -> None:
        """Queues an event, or gives up."""
        if len(self._events) >= self._limit:
            self.fail(WatcherTooSlow(self._limit))
            return
        self._events.append(happened)
        self._news.set()

    def fail(self, error: Exception) -> None:
        """Ends the watch with an error, at once."""
        self._error = self._error or error
        self._events.clear()
        self._news.set()

    async def events(self) -> AsyncGenerator[Happened]:
        """Gives events as they come. Raises what ended the watch."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._error:
                raise self._error
            while self._events:
                yield self._events.popleft()


class Feed:
    """Waiters by topic and watchers by tenant. `sleep` is asyncio's, or a test's."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._sleep = sleep
        self._waiters: defaultdict[Topic, set[asyncio.Event]] = defaultdict(set)
        self._watchers: defaultdict[str | None, set[Watcher]] = defaultdict(set)
        self._closed: Callable[[], Exception] | None = None

    @property
    def waiting(self) -> int:
        """Waiters and watchers."""
        return sum(map(len, self._waiters.values())) + sum(map(len, self._watchers.values()))

    @property
    def watched(self) -> bool:
        """Whether anybody watches."""
        return bool(self._watchers)

    async def wait(self, topic: Topic, seconds: float) -> None:
        """Returns when the topic is touched or the time is over. Raises what closed the feed."""
        with self.listening(topic) as touched:
            await self.until(touched, seconds)

    @contextmanager
    def listening(self, topic: Topic) -> Iterator[asyncio.Event]:
        """Gives an event that is set when the topic is touched, from now on. Raises what closed the feed."""
        self.check()
        touched = asyncio.Event()
        self._waiters[topic].add(touched)
        try:
            yield touched
        finally:
            self._waiters[topic].discard(touched)
            if not self._waiters[topic]:
                del self._waiters[topic]

    async def until(self, touched: asyncio.Event, seconds: float) -> None:
        """Returns when the event is set or the time is over. Raises what closed the feed."""
        waits = [asyncio.ensure_future(x) for x in (touched.wait(), self._sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        self.check()

    def touch(self, topics: Iterable[Topic]) -> None:
        """Wakes those who wait for any of these."""
        for topic in topics:
            for touched in self._waiters.get(topic, ()):
                touched.set()

    def touch_all(self) -> None:
        """Wakes everybody who waits."""
        self.touch(list(self._waiters))

    def fail_watchers(self, error: Exception) -> None:
        """Ends every watch with an error."""
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.fail(error)

    def watchers(self, tenant: str) -> Iterable[Watcher]:
        """Those who watch a tenant's leases, or everybody's."""
        return chain(self._watchers.get(tenant, ()), self._watchers.get(None, ()))

    def watch(self, watcher: Watcher) -> None:
        """Lets a watcher hear from now on. Raises what closed the feed."""
        self.check()
        self._watchers[watcher.tenant].add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Lets a watcher go."""
        tenant = watcher.tenant
        self._watchers[tenant].discard(watcher)
        if not self._watchers[tenant]:
            del self._watchers[tenant]

    def close(self, error: Callable[[], Exception]) -> None:
        """Ends every wait and watch with an error, those to come included."""
        self._closed = error
        self.touch_all()
        self.fail_watchers(error())

    def check(self) -> None:
        """Raises what closed the feed."""
        if self._closed:
            raise self._closed()
