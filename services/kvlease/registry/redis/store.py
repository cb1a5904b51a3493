"""The store: asks scripts, and wakes those who wait for what other registries did."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from kvlease.registry.announcements import Announced, Announcement
from kvlease.registry.change import Event
from kvlease.registry.claims import Claimed, Target
from kvlease.registry.endings import Selection
from kvlease.registry.feed import Feed, Happened
from kvlease.registry.grants import Granted
from kvlease.registry.lease import Conversation, Reason, Terms
from kvlease.registry.lists import Branch, EngineShown, Filter, Page
from kvlease.registry.redis import questions, replies
from kvlease.registry.redis.reach import Reach
from kvlease.registry.redis.reckoning import Reckoning
from kvlease.registry.redis.scripts import Scripts
from kvlease.registry.redis.watching import NumberedWatcher
from kvlease.registry.renewals import Outcome, Renewal, Renewed
from kvlease.registry.rules import Rules
from kvlease.registry.session import Credential, Engine
from kvlease.registry.sessions import Answer, Beat, Opened
from kvlease.registry.shown import Shown
from kvlease.registry.turns import TurnEnd

LONGEST_NAP = 1.0
SHORTEST_NAP = 0.02
PART = 500
"""Leases that one script shows at most: all others wait for it."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which server's, under which prefix, and how many seconds a call may take."""

    urls: Sequence[str]
    prefix: str = "kvlease"
    timeout: float = 1.0


class RedisStore:
    """Registries that are told the same `Where` are one registry."""

    def __init__(
        self,
        where: Where,
        rules: Rules,
        scripts: Scripts,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        token: Callable[[], str],
        watch_limit: int,
        reckoning: Reckoning,
    ) -> None:
        """Is not connected yet. `clock` and `sleep` are for waiting only; `token` makes random names."""
        self._rules = rules
        self._clock = clock
        self._sleep = sleep
        self._token = token
        self._watch_limit = watch_limit
        self._feed = Feed(sleep)
        self._reach = Reach(
            where.urls,
            where.prefix,
            scripts,
            timeout=where.timeout,
            monotonic=clock,
            token=token,
            reckoning=reckoning,
            listener=self,
        )

    async def start(self) -> None:
        """Reaches the server. Raises StoreUnreachable if it is not there or not fit to be used."""
        await self._reach.start()

    async def run(self) -> None:
        """Lets time pass when nobody calls, and finds the server again. Runs until cancelled."""
        reached, answered = True, self._clock()
        while True:
            began, late = self._clock(), 0.0
            if began > answered + LONGEST_NAP + self._rules.timing.heartbeat:
                late = began - answered
            nap = LONGEST_NAP
            try:
                nap = await self.tick(stood_still=late)
                await self._reach.catch_up()
            except Exception as error:  # noqa: BLE001 - time must go on
                if reached:
                    log.warning("store lost", error=str(error), cause=str(error.__cause__ or ""))
                reached = False
            else:
                reached, answered = True, self._clock()
            await self._sleep(min(LONGEST_NAP, max(SHORTEST_NAP, nap)))

    async def tick(self, *, stood_still: float = 0.0) -> float:
        """Lets happen what is due; returns after how many seconds to call again."""
        return float((await self._ask("tick", {"longest": LONGEST_NAP, "stood_still": stood_still}))[0])

    async def catch_up(self) -> None:
        """Returns when everything that happened so far was heard of."""
        await self._reach.catch_up()

    async def close(self) -> None:
        """Leaves the server."""
        await self._reach.close()

    @property
    def waiting(self) -> int:
        """Calls that wait, and watches."""
        return self._feed.waiting

    def stop_waiting(self, error: Callable[[], Exception]) -> None:
        self._feed.close(error)

    def heard(self, channel: str, message: bytes) -> None:
        """Takes what a script has published."""
        if channel == "touched":
            self._feed.touch(tuple(topic.split(" ", 1)) for topic in json.loads(message))
        elif self._feed.watched:
            number, *events = json.loads(message)
            for event in events:
                self._tell(number, event)

    def missed(self, error: Exception) -> None:
        """Lets those who wait ask again, and those who watch begin anew."""
        self._feed.touch_all()
        self._feed.fail_watchers(error)

    async def open_session(self, engine: Engine) -> Opened:
        credential = Credential(self._token(), self._token())
        asked = {
            **questions.engine(engine.ref),
            "id": credential.session_id,
            "secret": questions.secret(credential.secret),
            "models": engine.models,
            "total_blocks": engine.total_blocks,
        }
        boot_id, budget = await self._ask_whole("open_session", {"engine": asked}, engine.profile)
        return Opened(credential, boot_id, int(budget))

    async def heartbeat(self, credential: Credential, beat: Beat) -> Answer:
        told = {
            "received": beat.received,
            "leased": beat.leased,
            "reclaim": beat.reclaim,
            "freed": beat.freed,
            "renew": beat.renew,
            "draining": beat.draining,
        }
        asked = {**questions.credential(credential), "beat": told}
        boot_id, number, orders, remaining = await self._ask_whole("heartbeat", asked, beat.load)
        return Answer(
            int(number),
            boot_id,
            [(lease_id.decode(), Reason(reason)) for lease_id, reason in orders],
            [(lease_id.decode(), float(seconds)) for lease_id, seconds in remaining],
        )

    async def close_session(self, credential: Credential) -> None:
        await self._ask("close_session", questions.credential(credential))

    async def announce(self, credential: Credential, leases: Sequence[Announced]) -> list[Announcement]:
        told = [(x.generation, x.remaining) for x in leases]
        asked = {**questions.credential(credential), "leases": told}
        (results,) = await self._ask("announce", asked, *(part for x in leases for part in _parts(x.terms)))
        return [
            Announcement(x.terms.lease_id, kept=bool(kept), generation=generation)
            for x, (kept, generation) in zip(leases, results, strict=True)
        ]

    async def grant(self, credential: Credential, terms: Terms, report: bytes | None) -> Granted:
        asked = questions.credential(credential)
        generation, remaining = await self._ask("grant", asked, *_parts(terms), report or b"")
        return Granted(int(generation), float(remaining))

    async def renew(self, tenant: str, wanted: Sequence[Renewal]) -> list[Renewed]:
        asked = {"tenant": tenant, "renewals": [questions.renewal(x) for x in wanted]}
        (results,) = await self._ask("renew", asked)
        return [Renewed(Outcome(outcome), float(remaining), leases) for outcome, remaining, leases in results]

    async def release(self, credential: Credential, lease_id: str, wait: float) -> bool:
        _, claimed = await self._release(credential, [lease_id], wait)
        return not claimed

    async def release_all(self, credential: Credential, wait: float) -> tuple[list[str], list[str]]:
        return await self._release(credential, None, wait)

    async def end_conversation(self, conversation: Conversation) -> int:
        (live,) = await self._ask("end_conversation", questions.conversation(conversation))
        return int(live)

    async def claim(self, credential: Credential, claim_id: str, target: Target, wait: float) -> Claimed:
        asked_for, digests = questions.target(target)
        asked = {**questions.credential(credential), "claim_id": claim_id, "target": asked_for}
        came_at = self._clock()
        ends_at = came_at + wait
        with self._feed.listening(questions.topic(target)) as touched:
            while True:
                touched.clear()
                sent = self._clock()
                given = await self._ask("claim", {**asked, "waits": sent < ends_at}, digests)
                if len(given) > 1:
                    ttl, lease, matched = given
                    return Claimed(float(ttl) + sent - came_at, replies.shown(lease), int(matched))
                left = ends_at - self._clock()
                await self._feed.until(touched, min(left, float(given[0])))

    async def renew_claim(self, credential: Credential, claim_id: str) -> float:
        (ttl,) = await self._ask("renew_claim", {**questions.credential(credential), "claim_id": claim_id})
        return float(ttl)

    async def finish_claim(self, credential: Credential, claim_id: str) -> str | None:
        (lease_id,) = await self._ask("finish_claim", {**questions.credential(credential), "claim_id": claim_id})
        return lease_id.decode() or None

    async def end_turn(self, end: TurnEnd) -> bytes | None:
        told, report = await self._ask("end_turn", {"ending": questions.ending(end)})
        return report if told else None

    async def drain(self, engine_id: str, *, undo: bool) -> None:
        await self._ask("drain", {"engine_id": engine_id, "undo": undo})

    async def revoke(self, selection: Selection) -> int:
        of_conversation = questions.conversation(selection.conversation) if selection.conversation else {}
        asked = {"lease_ids": selection.lease_ids, "engine_id": selection.engine_id, **of_conversation}
        (live,) = await self._ask("revoke", {"selection": asked})
        return int(live)

    async def get(self, tenant: str, lease_id: str) -> Shown:
        (lease,) = await self._ask("get", {"tenant": tenant, "lease_id": lease_id})
        return replies.shown(lease)

    async def page(self, wanted: Filter, after: int, size: int, *, whole: bool = False) -> Page:
        asked = {"wanted": questions.wanted(wanted), "after": after, "size": size, "whole": whole}
        found, next_after = await self._ask("page", asked)
        return Page([replies.shown(x) for x in found], int(next_after))

    async def locate(self, conversations: Sequence[Conversation]) -> list[list[Branch]]:
        (located,) = await self._ask("locate", {"conversations": [questions.conversation(x) for x in conversations]})
        return [[replies.branch(x) for x in branches] for branches in located]

    async def watch(self, wanted: Filter) -> AsyncGenerator[Happened]:
        watcher = NumberedWatcher(wanted, self._watch_limit)
        self._feed.watch(watcher)
        try:
            async for lease in self._existing(wanted, watcher):
                yield Happened(Event.EXISTS, lease)
            yield Happened(Event.SYNCED, None)
            async for happened in watcher.events():
                yield happened
        finally:
            self._feed.unwatch(watcher)

    async def _existing(self, wanted: Filter, watcher: NumberedWatcher) -> AsyncGenerator[Shown]:
        """Gives what there is, part by part; the watcher hears of what happens from the first part on."""
        after, first = 0, True
        while first or after:
            asked = {"wanted": questions.wanted(wanted), "after": after, "size": PART}
            there, next_after, number = await self._ask("existing", asked)
            if first:
                watcher.begin_after(int(number))
            after, first = int(next_after), False
            for lease in there:
                yield replies.shown(lease)

    async def follow(self) -> AsyncGenerator[Happened]:
        watcher = NumberedWatcher(None, self._watch_limit)
        watcher.begin_after(0)
        self._feed.watch(watcher)
        try:
            async for happened in watcher.events():
                yield happened
        finally:
            self._feed.unwatch(watcher)

    async def engines(self, model: str, *, include_lost: bool) -> list[EngineShown]:
        (found,) = await self._ask("engines", {"model": model, "include_lost": include_lost})
        return [replies.engine(x) for x in found]

    async def _release(
        self, credential: Credential, lease_ids: list[str] | None, wait: float
    ) -> tuple[list[str], list[str]]:
        """Gives back what can be, again and again until nothing is left or the wait is over. None: all there are."""
        ends_at = self._clock() + wait
        released, left = await self._release_now(credential, {} if lease_ids is None else {"lease_ids": lease_ids})
        while left and (seconds := ends_at - self._clock()) > 0:
            with self._feed.listening(("lease", left[0])) as touched:
                more, left = await self._release_now(credential, {"lease_ids": left})  # it may not have been heard
                released += more
                if left:
                    await self._feed.until(touched, seconds)
        return released, left

    async def _release_now(self, credential: Credential, chosen: dict[str, Any]) -> tuple[list[str], list[str]]:
        released, claimed = await self._ask("release", {**questions.credential(credential), **chosen})
        return [x.decode() for x in released], [x.decode() for x in claimed]

    async def _ask(self, name: str, asked: dict[str, Any], *more: bytes | str) -> list[Any]:
        return (await self._ask_whole(name, asked, *more))[1:]

    async def _ask_whole(self, name: str, asked: dict[str, Any], *more: bytes | str) -> list[Any]:
        """Runs an operation; returns the boot id and what it gives. Raises what it is refused with."""
        refused, boot_id, *given = await self._reach.call(name, asked, *more)
        if refused:
            raise replies.refusal(refused, given)
        return [boot_id, *given]

    def _tell(self, number: int, event: Sequence[Any]) -> None:
        kind, *lease = event
        shown = replies.shown([*lease, b"", b""])
        for watcher in self._feed.watchers(shown.terms.conversation.tenant):
            if watcher.takes(shown.terms, shown.state) and isinstance(watcher, NumberedWatcher):
                watcher.hear(number, Happened(Event(kind), shown))


def _parts(terms: Terms) -> tuple[str, bytes, bytes]:
    return questions.told(terms), terms.handle.chain.digests, terms.handle.body
