"""Keeps an engine's session with the registry: opens, announces, beats, and opens again after whatever happens.

Runs on the link's event loop. The rules of holding and freeing are `owner.Owner`'s; this is the conversation about
them.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from urllib.parse import urlsplit

import structlog

from kvlease.client import errors
from kvlease.client.convert import seconds
from kvlease.client.engine import EngineRegistryClient
from kvlease.connector.clock import Clock
from kvlease.connector.complaint import fault
from kvlease.connector.owner import Owner
from kvlease.v1.registry_pb2 import (
    AnnounceLeasesRequest,
    AnnounceStatus,
    CloseSessionRequest,
    Engine,
    EngineLoad,
    HeartbeatRequest,
    OpenSessionRequest,
    OpenSessionResponse,
    ReleaseAllRequest,
    SessionCredential,
)

log = structlog.get_logger()

ANNOUNCE_BATCH = 256
RETRY_FIRST, RETRY_LAST = 0.1, 1.0  # seconds between attempts to open a session
SERVING_POLL, SERVING_PATIENCE, SERVING_WITHIN = 0.1, 2.0, 120.0  # seconds: between two looks, of one, of all
_PORTS = {"http": 80, "https": 443}


class Session:
    """One engine's session, for as long as the engine lives."""

    def __init__(
        self,
        registry: EngineRegistryClient,
        engine: Engine,
        owner: Owner,
        *,
        load: Callable[[], EngineLoad],
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        """Connects nothing; *load* and *wake* are called on the event loop."""
        self._registry, self._engine, self._owner = registry, engine, owner
        self._load, self._wake, self._clock = load, wake, clock
        self._beat_now = asyncio.Event()
        self._reclaim_blocks = 0
        self._opened: OpenSessionResponse | None = None
        self._lost = asyncio.Event()
        self._lost.set()
        self.draining = False

    @property
    def credential(self) -> SessionCredential | None:
        """What proves the session to the registry; None while there is none or the registry does not answer."""
        return self._opened.credential if self._opened and not self._lost.is_set() else None

    async def lost(self) -> None:
        """Returns once there is no session, or the registry does not answer."""
        await self._lost.wait()

    async def keep(self) -> None:
        """Opens a session once the engine serves, and keeps one until cancelled."""
        await self._serving()
        pause = 0.0
        while True:
            since = math.inf
            try:
                opened = await self._open()
                since = self._clock()
                await self._beat(opened)
            except errors.SessionNotFound:
                log.info("session lost", engine=self._engine.ref.engine_id)
            except errors.KvleaseError as error:
                if not pause:  # once per outage
                    log.warning("registry unreachable, serving without leases", error=str(error), reason=error.reason)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not be the last attempt
                if not pause:
                    fault("session failed, serving without leases", error)
            finally:
                self._lost.set()
            lasted = self._clock() >= since + RETRY_LAST  # else somebody else may use our id, and take it back at once
            pause = 0.0 if lasted else min(max(2 * pause, RETRY_FIRST), RETRY_LAST)
            self._beat_now.clear()
            await self._pause(pause)

    def beat(self, reclaim_blocks: int = 0) -> None:
        """Sends the next heartbeat at once, asking for *reclaim_blocks* back."""
        self._reclaim_blocks = max(self._reclaim_blocks, reclaim_blocks)
        self._beat_now.set()

    async def close(self, wait: float) -> None:
        """Gives all leases back and ends the session; waits up to *wait* seconds for readers."""
        if (credential := self.credential) is None:
            return
        request = ReleaseAllRequest(credential=credential)
        request.wait.FromMilliseconds(round(wait * 1000))
        try:
            await self._registry.release_all(request)
            await self._registry.close_session(CloseSessionRequest(credential=credential))
        except errors.KvleaseError as error:
            log.warning("session not closed", error=str(error))

    async def release_all(self) -> None:
        """Gives all leases back; what is still read is ordered free when its claims end."""
        if (credential := self.credential) is None:
            return  # the owner's fail-safe lets them go
        try:
            answer = await self._registry.release_all(ReleaseAllRequest(credential=credential))
        except errors.KvleaseError as error:
            log.warning("leases not released: try again", error=str(error))
            return
        for lease_id in answer.released_lease_ids:
            self._owner.over(lease_id, "released")
        self._wake()

    async def _serving(self) -> None:
        """Waits until the engine's HTTP server accepts connections: whoever is registered gets requests."""
        url = self._engine.http_url
        place = host_and_port(url)
        try:
            async with asyncio.timeout(SERVING_WITHIN):
                if await _accepts(*place):
                    return
                log.info("to be registered once its http url (KVLEASE_HTTP_URL) accepts connections", http_url=url)
                while True:
                    await asyncio.sleep(SERVING_POLL)
                    if await _accepts(*place):
                        return
        except TimeoutError:
            log.warning("http url (KVLEASE_HTTP_URL) not reachable from here, registered all the same", http_url=url)

    async def _open(self) -> OpenSessionResponse:
        opened = await self._registry.open_session(OpenSessionRequest(engine=self._engine))
        self._reclaim_blocks = 0  # asked for before the outage, and asked for again if they are still wanted
        leases = self._owner.opened(seconds(opened.timing.hold), self._clock())
        for start in range(0, len(leases), ANNOUNCE_BATCH):
            batch = leases[start : start + ANNOUNCE_BATCH]
            request = AnnounceLeasesRequest(credential=opened.credential, leases=batch)
            for result in (await self._registry.announce_leases(request)).results:
                if result.status != AnnounceStatus.ANNOUNCE_STATUS_KEPT:
                    self._owner.over(result.lease_id, "over when announced")
        self._opened = opened
        self._lost.clear()
        log.info("session opened", engine=self._engine.ref.engine_id, boot_id=opened.boot_id, announced=len(leases))
        self._wake()
        return opened

    async def _beat(self, opened: OpenSessionResponse) -> None:
        interval = seconds(opened.timing.heartbeat_interval)
        misses_left = 3
        while True:
            try:
                await self._beat_once(opened, patience=interval)
                misses_left = 3
                self._lost.clear()
            except (errors.Unavailable, errors.DeadlineExceeded):
                self._lost.set()
                self._wake_if_silent()
                misses_left -= 1
                if not misses_left:
                    raise
            await self._pause(interval)

    async def _beat_once(self, opened: OpenSessionResponse, *, patience: float) -> None:
        number, freed = self._owner.report()
        self._beat_now.clear()
        reclaim, self._reclaim_blocks = self._reclaim_blocks, 0
        answer = await self._registry.heartbeat(
            HeartbeatRequest(
                credential=opened.credential,
                received_number=number,
                load=self._load(),
                reclaim_blocks=reclaim,
                freed_lease_ids=freed,
                draining=self.draining,
            ),
            timeout=patience,
        )
        if answer.boot_id != opened.boot_id:
            raise errors.SessionNotFound("the registry was restarted")
        self._owner.answered(answer.number, answer.orders, self._clock(), len(freed))
        if self._owner.waiting:
            self._wake()

    def _wake_if_silent(self) -> None:
        if self._owner.silent(self._clock()):
            self._wake()

    async def _pause(self, length: float) -> None:
        """Waits *length* seconds, or until a heartbeat is wanted; frees by fail-safe are noticed meanwhile."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._beat_now.wait(), length)
        self._wake_if_silent()


def host_and_port(url: str) -> tuple[str | None, int | None]:
    """Returns where the server of a URL listens."""
    parts = urlsplit(url)
    return parts.hostname, parts.port or _PORTS.get(parts.scheme)


async def _accepts(host: str | None, port: int | None) -> bool:
    """Tells whether somebody accepts connections there; who says nothing for a while does not."""
    try:
        async with asyncio.timeout(SERVING_PATIENCE):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, ValueError):  # a ValueError: of a host that is no name
        return False
    writer.close()
    return True
