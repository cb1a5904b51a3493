"""The server, found again whenever it is lost; every call ends within the time limit."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import structlog
from redis.exceptions import AskError, MovedError, NoScriptError, ReadOnlyError, RedisError, ResponseError

from kvlease.registry.errors import StoreUnreachable
from kvlease.registry.redis.ear import Ear
from kvlease.registry.redis.link import Link, connection, disconnect
from kvlease.registry.redis.reckoning import Reckoning
from kvlease.registry.redis.scripts import Script, Scripts
from kvlease.registry.redis.server import Unfit, examine

log = structlog.get_logger()


class ScriptFault(Exception):
    """A script has a fault; nothing was changed."""


class Listener(Protocol):
    """Who is told what happens to the store."""

    def heard(self, channel: str, message: bytes) -> None:
        """Something was published on "touched" or "events"."""

    def missed(self, error: Exception) -> None:
        """Something may have been published unheard, or the state is another life's."""


class Reached(NamedTuple):
    """A connection and the life of the deployment that it was opened in."""

    link: Link
    ear: Ear
    run_id: str
    boot_id: str


class Reach:
    """Calls scripts on whichever of the servers has the keys."""

    def __init__(
        self,
        urls: Sequence[str],
        prefix: str,
        scripts: Scripts,
        *,
        timeout: float,
        monotonic: Callable[[], float],
        token: Callable[[], str],
        reckoning: Reckoning,
        listener: Listener,
    ) -> None:
        """Connects with the first call. `timeout` is for one call, connecting included."""
        self._urls = urls
        self._base = f"{{{prefix}}}"
        self._scripts = scripts
        self._timeout = timeout
        self._monotonic = monotonic
        self._token = token
        self._reckoning = reckoning
        self._listener = listener
        self._now: Reached | None = None
        self._connecting: asyncio.Task[Reached] | None = None
        self._moved: tuple[str, int] | None = None
        self._tried = 0
        self._starting = True

    async def start(self) -> None:
        """Connects to the first server that will do. Raises StoreUnreachable, with what the last one was like."""
        for left in reversed(range(len(self._urls))):
            try:
                await self._reached()
            except StoreUnreachable:
                if not left:
                    raise
            else:
                return

    async def call(self, name: str, args: Mapping[str, object], *more: bytes | str) -> list[Any]:
        """Runs an operation; returns what it gives, the refusal's name first, the boot id second.

        Raises StoreUnreachable: it may or may not have been done then. Raises ScriptFault.
        """
        script = self._scripts.operations[name]
        encoded = json.dumps(args, separators=(",", ":"))
        try:
            async with asyncio.timeout(self._timeout):
                return await self._call(script, encoded, more)
        except TimeoutError:
            error = StoreUnreachable("the store did not answer in time")
            self._lose(error)
            raise error from None
        except ResponseError as failed:
            raise self._failed(failed) from failed

    async def catch_up(self) -> None:
        """Returns when everything published so far was heard. Raises StoreUnreachable."""
        reached = await self._reached()
        try:
            async with asyncio.timeout(self._timeout):
                await reached.ear.catch_up()
        except (TimeoutError, RedisError, OSError) as failed:
            error = StoreUnreachable("the store's messages do not arrive")
            self._lose(error)
            raise error from failed

    async def close(self) -> None:
        """Closes what is open."""
        self._lose(StoreUnreachable("the store was closed"))
        if self._connecting:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._now:
            await _close(self._now)

    async def _call(self, script: Script, encoded: str, more: Sequence[bytes | str]) -> list[Any]:
        reached = await self._reached()
        sent = self._monotonic()
        answer = await self._evaluate(reached.link, script, encoded, more)
        if answer[0] in {b"Forgotten", b"OtherRules"}:  # it lost everything and is the same, or others have taken over
            await self._arrive(reached, over="")
            sent = self._monotonic()
            answer = await self._evaluate(reached.link, script, encoded, more)
        refused, at, boot, *given = answer
        boot_id = boot.decode()
        self._adopt(boot_id)
        if not self._reckoning.agrees(sent, float(at), self._monotonic()):
            log.warning("the store's clock was set; its state is given up", boot=boot_id)
            await self._arrive(reached, over=boot_id)
            raise StoreUnreachable("the store's clock was set")
        return [refused.decode(), boot_id, *given]

    async def _evaluate(self, link: Link, script: Script, *parts: Any) -> list[Any]:
        encoded, more = parts
        try:
            answer: list[Any] = await link.call("EVALSHA", script.sha, 1, self._base, encoded, *more)
        except NoScriptError:
            answer = await link.call("EVAL", script.text, 1, self._base, encoded, *more)
        return answer

    async def _reached(self) -> Reached:
        if self._now and not self._now.link.ended.done():
            return self._now
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(lambda done: done.cancelled() or done.exception())  # all may have left
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> Reached:
        """Connects to the next address. Raises StoreUnreachable, Unfit."""
        if self._now:
            await _close(self._now)
            self._now = None
        try:
            async with asyncio.timeout(self._timeout):
                self._now = await self._find()
        except (TimeoutError, RedisError, OSError, StoreUnreachable) as error:
            self._tried += 1
            if isinstance(error, StoreUnreachable):
                raise
            raise StoreUnreachable("the store cannot be reached") from error  # nobody else need know where it is
        log.info("store reached", boot=self._now.boot_id)
        return self._now

    async def _find(self) -> Reached:
        """Opens the next address, or the one that a server of a cluster names in its stead."""
        url = self._urls[self._tried % len(self._urls)]
        at, self._moved = self._moved, None
        try:
            return await self._open(url, at)
        except MovedError as moved:
            return await self._open(url, (moved.host, moved.port))

    async def _open(self, url: str, at: tuple[str, int] | None) -> Reached:
        connected, hearing = connection(url, at), connection(url, at)
        link: Link | None = None
        try:
            await connected.connect()  # type: ignore[no-untyped-call]
            await hearing.connect()  # type: ignore[no-untyped-call]
            link = Link(connected)
            server = await examine(link)
            ear = Ear(hearing, [f"{self._base}:{x}" for x in ("touched", "events")], self._hear)
            await ear.open()
            reached = Reached(link, ear, server.run_id, "")
            self._reckoning.begin()
            reached = reached._replace(boot_id=await self._arrive(reached, over=""))
        except BaseException:
            if link:
                await link.close()
            for opened in (connected, hearing):
                await disconnect(opened)
            raise
        link.ended.add_done_callback(lambda ended: self._listener.missed(ended.result()))
        ear.ended.add_done_callback(lambda ended: _end(link, ended))
        return reached

    async def _arrive(self, reached: Reached, *, over: str) -> str:
        """Makes sure that there is a life of the deployment on this server, other than `over`; returns its boot id."""
        args = {"run_id": reached.run_id, "new_id": self._token(), "over": over, "starting": self._starting}
        told, *arrived = await self._evaluate(reached.link, self._scripts.arrive, json.dumps(args), ())
        if told:
            raise Unfit("a registry with other settings, or of another version, has taken the store over")
        self._starting = False
        boot_id: str = arrived[0].decode()
        self._adopt(boot_id)
        return boot_id

    def _adopt(self, boot_id: str) -> None:
        """Takes note of another life: nothing is where it was."""
        if self._now and self._now.boot_id != boot_id:
            self._now = self._now._replace(boot_id=boot_id)
            self._reckoning.begin()
            self._listener.missed(StoreUnreachable("the store has begun anew"))

    def _hear(self, channel: str, message: bytes) -> None:
        self._listener.heard(channel.removeprefix(f"{self._base}:"), message)

    def _failed(self, error: ResponseError) -> Exception:
        """Tells what the server's error means: it is not the one any more, cannot now, or a script has a fault."""
        if str(error).startswith("user_script:"):
            return ScriptFault(str(error))
        if isinstance(error, MovedError):
            self._moved = (error.host, error.port)
        if isinstance(error, (AskError, ReadOnlyError)):
            self._tried += 1 - isinstance(error, AskError)
            self._lose(StoreUnreachable("the keys are on another server"))
        else:
            log.error("the store failed", error=str(error))
        return StoreUnreachable("the store could not do it")

    def _lose(self, error: Exception) -> None:
        if self._now:
            self._now.link.end(error)


def _end(link: Link, ended: asyncio.Future[Exception]) -> None:
    if not ended.cancelled():
        link.end(ended.result())


async def _close(reached: Reached) -> None:
    await reached.link.close()
    await reached.ear.close()
