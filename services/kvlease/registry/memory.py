"""The store in this process's memory: a ledger, the only clock, and those who wait."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from kvlease.registry import (
    announcements,
    claims,
    endings,
    grants,
    lists,
    renewals,
    sessions,
    turns,
)
from kvlease.registry.announcements import Announced, Announcement
from kvlease.registry.change import Event
from kvlease.registry.claims import Claimed, Pending, Target
from kvlease.registry.endings import Selection
from kvlease.registry.feed import Feed, Happened, Watcher
from kvlease.registry.grants import Granted
from kvlease.registry.lease import Conversation, Terms
from kvlease.registry.ledger import Ledger
from kvlease.registry.lists import Branch, EngineShown, Filter, Page
from kvlease.registry.renewals import Renewal, Renewed
from kvlease.registry.rules import Rules
from kvlease.registry.session import Credential, Engine
from kvlease.registry.sessions import Answer, Beat, Opened
from kvlease.registry.shown import Shown, show
from kvlease.registry.turns import TurnEnd
from kvlease.registry.value import Value

LONGEST_NAP = 1.0
SHORTEST_NAP = 0.02
LOGGED = {Event.GRANTED: "lease granted", Event.RETIRED: "lease retired", Event.FREED: "lease freed"}
T = TypeVar("T")

log = structlog.get_logger()


class MemoryStore:
    """Keeps nothing beyond the process: owners announce their leases to the next one."""

    def __init__(
        self,
        rules: Rules,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        token: Callable[[], str],
        value: Value,
        watch_limit: int,
    ) -> None:
        """Starts empty. `token` makes random names; a watcher may leave `watch_limit` events untaken."""
        self._clock = clock
        self._sleep = sleep
        self._watch_limit = watch_limit
        self._ledger = Ledger(rules, clock(), token=token, value=value)
        self._feed = Feed(sleep)
        self._logs = log.bind().is_enabled_for(logging.DEBUG)
        """Whether every lease is to be logged; asking the logger each time costs more than granting one."""

    async def run(self) -> None:
        """Lets time pass when nobody calls, so that waiters and watchers hear in time. Runs until cancelled."""
        while True:
            self.advance()
            due = self._ledger.timers.next()
            fell_asleep = self._clock()
            nap = LONGEST_NAP if due is None else due - fell_asleep
            overdue = nap < 0  # there was more to do than could be done at once
            await self._sleep(0.0 if overdue else min(LONGEST_NAP, max(SHORTEST_NAP, nap)))
            if (woke := self._clock()) > fell_asleep + LONGEST_NAP + self._ledger.rules.timing.heartbeat:
                self._ledger.stood_still = (fell_asleep, woke)

    def advance(self) -> None:
        """Lets happen what is due."""
        self._do(lambda _: None)

    @property
    def waiting(self) -> int:
        """Calls that wait, and watches."""
        return self._feed.waiting

    def stop_waiting(self, error: Callable[[], Exception]) -> None:
        self._feed.close(error)

    async def open_session(self, engine: Engine) -> Opened:
        return self._do(lambda x: sessions.open_session(x, engine))

    async def heartbeat(self, credential: Credential, beat: Beat) -> Answer:
        return self._do(lambda x: sessions.heartbeat(x, credential, beat))

    async def close_session(self, credential: Credential) -> None:
        self._do(lambda x: sessions.close_session(x, credential))

    async def announce(self, credential: Credential, leases: Sequence[Announced]) -> list[Announcement]:
        return self._do(lambda x: announcements.announce(x, credential, leases))

    async def grant(self, credential: Credential, terms: Terms, report: bytes | None) -> Granted:
        return self._do(lambda x: grants.grant(x, credential, terms, report))

    async def renew(self, tenant: str, wanted: Sequence[Renewal]) -> list[Renewed]:
        return self._do(lambda x: renewals.renew(x, tenant, wanted))

    async def release(self, credential: Credential, lease_id: str, wait: float) -> bool:
        _, claimed = await self._release(credential, [lease_id], wait)
        return not claimed

    async def release_all(self, credential: Credential, wait: float) -> tuple[list[str], list[str]]:
        held = self._do(lambda x: [lease.lease_id for lease in x.session(credential).leases.values()])
        return await self._release(credential, held, wait)

    async def end_conversation(self, conversation: Conversation) -> int:
        return self._do(lambda x: endings.end_conversation(x, conversation))

    async def claim(self, credential: Credential, claim_id: str, target: Target, wait: float) -> Claimed:
        came_at = self._clock()
        ends_at = came_at + wait
        while True:
            waits = self._clock() < ends_at
            found = self._do(lambda x: claims.claim(x, credential, claim_id, target, waits=waits))  # noqa: B023
            if not isinstance(found, Pending):
                return found._replace(ttl=found.ttl + self._ledger.now - came_at)  # it counts from the asking
            await self._feed.wait(found.topic, min(ends_at, found.until) - self._clock())

    async def renew_claim(self, credential: Credential, claim_id: str) -> float:
        came_at = self._clock()
        ttl = self._do(lambda x: claims.renew_claim(x, credential, claim_id))
        return max(0.0, ttl + self._ledger.now - came_at)  # likewise, and time may have stopped on the way

    async def finish_claim(self, credential: Credential, claim_id: str) -> str | None:
        return self._do(lambda x: claims.finish_claim(x, credential, claim_id))

    async def end_turn(self, end: TurnEnd) -> bytes | None:
        return self._do(lambda x: turns.end_turn(x, end))

    async def drain(self, engine_id: str, *, undo: bool) -> None:
        self._do(lambda x: sessions.drain(x, engine_id, undo=undo))

    async def revoke(self, selection: Selection) -> int:
        return self._do(lambda x: endings.revoke(x, selection))

    async def get(self, tenant: str, lease_id: str) -> Shown:
        return self._do(lambda x: lists.get(x, tenant, lease_id))

    async def page(self, wanted: Filter, after: int, size: int, *, whole: bool = False) -> Page:  # noqa: ARG002 - is free
        return self._do(lambda x: lists.page(x, wanted, after, size))

    async def locate(self, conversations: Sequence[Conversation]) -> list[list[Branch]]:
        return self._do(lambda x: lists.locate(x, conversations))

    async def watch(self, wanted: Filter) -> AsyncGenerator[Happened]:
        there = self._do(lambda x: [lease.lease_id for lease in lists.existing(x, wanted)])
        watcher = Watcher(wanted, self._watch_limit)
        self._feed.watch(watcher)
        try:
            for lease_id in there:
                if lease := self._ledger.leases.get(lease_id):
                    yield Happened(Event.EXISTS, show(lease, self._ledger.now))
            yield Happened(Event.SYNCED, None)
            async for happened in watcher.events():
                yield happened
        finally:
            self._feed.unwatch(watcher)

    async def follow(self) -> AsyncGenerator[Happened]:
        watcher = Watcher(None, self._watch_limit)
        self._feed.watch(watcher)
        try:
            async for happened in watcher.events():
                yield happened
        finally:
            self._feed.unwatch(watcher)

    async def engines(self, model: str, *, include_lost: bool) -> list[EngineShown]:
        return self._do(lambda x: lists.engines(x, model, include_lost=include_lost))

    async def _release(self, credential: Credential, lease_ids: list[str], wait: float) -> tuple[list[str], list[str]]:
        """Gives back what can be, again and again until nothing is left or the wait is over."""
        ends_at = self._clock() + wait
        released: list[str] = []
        claimed = lease_ids
        while True:
            now_released, claimed = self._do(lambda x: endings.release(x, credential, claimed))  # noqa: B023
            released += now_released
            left = ends_at - self._clock()
            if not claimed or left <= 0:
                return released, claimed
            await self._feed.wait(("lease", claimed[0]), left)

    def _do(self, operation: Callable[[Ledger], T]) -> T:
        """Brings the ledger up to now, does one operation on it, and tells what changed."""
        self._ledger.advance(self._clock())
        try:
            return operation(self._ledger)
        finally:
            self._publish()

    def _publish(self) -> None:
        ledger = self._ledger
        heard = self._logs or self._feed.watched
        for event, lease, state, reason in ledger.changes if heard else ():
            if self._logs and event in LOGGED:
                log.debug(LOGGED[event], lease=lease.lease_id, engine=lease.engine.engine_id, why=reason.name)
            for watcher in self._feed.watchers(lease.tenant):
                if watcher.takes(lease, state):
                    watcher.put(Happened(event, show(lease, ledger.now, state, reason)))
        self._feed.touch(ledger.touched)
        ledger.forget_changes()
