"""An engine's process, pretended: starts, crashes, and starts again on the same port as another incarnation."""

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

import structlog

from kvlease.connector.loop_thread import LoopThread
from kvlease.sim.app import App
from kvlease.sim.connector import Connector
from kvlease.sim.engine import Engine
from kvlease.sim.faults import Switches
from kvlease.sim.http import HttpRequest, HttpServer, Reply
from kvlease.sim.pool import BlockPool
from kvlease.sim.scheduler import Scheduler
from kvlease.sim.settings import ROLES, Settings
from kvlease.sim.wire import Wire
from kvlease.v1 import lease_pb2, registry_pb2

log = structlog.get_logger()


class Instance:
    """One engine from `start` to `stop`, crashes apart."""

    def __init__(self, settings: Settings, wire: Wire, thread: LoopThread) -> None:
        """Opens nothing. Instances of one process share *wire* and *thread*."""
        self.settings = settings
        self.engine: Engine
        self.switches: Switches
        self._wire, self._thread = wire, thread
        self._app: App
        self._server: HttpServer | None = None
        self._stepping: asyncio.Task[None] | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """It has not crashed."""
        return self._server is not None

    @property
    def url(self) -> str:
        """Where its HTTP server is, or was."""
        return f"http://{self.settings.host}:{self.settings.port}"

    def handle(self, request: HttpRequest, reply: Reply) -> None:
        """Answers a request that came to its server, or to one that it shares with others."""
        self._app.handle(request, reply)  # which knows the server's port

    async def start(self) -> None:
        """Starts with an empty pool, as a new incarnation. Raises OSError when its port is taken."""
        self.switches = Switches(time.monotonic)

        server = HttpServer(self.handle)
        port = server.listen(self.settings.host, self.settings.port)
        self.settings = replace(self.settings, port=port)
        self._server = server
        name = self.settings.connector.engine_id or f"{self.settings.name or self.settings.host}:{port}"
        self.engine = self._build(name)
        loop = asyncio.get_running_loop()
        self._app = App(self.settings, self.engine, self.switches, name=name, crash=self.crash, later=loop.call_later)
        self._stepping = loop.create_task(self.engine.run())
        self._stepping.add_done_callback(self._stepped)
        self.engine.connector.start()

    async def stop(self) -> None:
        """Gives all leases back and ends; takes a second or two."""
        if self._restart is not None:
            self._restart.cancel()
        if self._starting is not None:
            await self._starting
        if self.running:
            await asyncio.to_thread(self.engine.connector.close)
            self._cut()
            self.engine.connector.detach()

    def crash(self, restart_after: float | None = None) -> None:
        """Ends at once and without a word to anybody; starts again after so many seconds, or never."""
        if not self.running:
            return
        self._cut()
        self.engine.connector.drop()
        if restart_after is not None:
            self._restart = asyncio.get_running_loop().call_later(restart_after, self._start_again)

    def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._stepping is not None:
            self._stepping.cancel()

    def _start_again(self) -> None:
        self._starting = asyncio.get_running_loop().create_task(self._restarted())

    async def _restarted(self) -> None:
        try:
            await self.start()
        except OSError:
            log.exception("engine not started again", url=self.url)

    def _stepped(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            log.error("engine died", url=self.url, exc_info=task.exception())
            self.crash()

    def _build(self, name: str) -> Engine:
        settings, loop, wake = self.settings, asyncio.get_running_loop(), asyncio.Event()
        pool = BlockPool(settings.blocks)
        connector = Connector(
            settings,
            _describe(settings, name),
            pool,
            self._wire,
            thread=self._thread,
            switches=self.switches,
            load=lambda: (len(scheduler.running), len(scheduler.waiting) + len(scheduler.remote)),
            wake=wake.set,
            wake_from_thread=lambda: _call_soon(loop, wake.set),
            clock=time.monotonic,
        )
        scheduler = Scheduler(pool, connector, settings.limits)
        return Engine(scheduler, connector, pool, settings.latency, self.switches, wake=wake, clock=time.monotonic)


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(callback)


def _describe(settings: Settings, name: str) -> registry_pb2.Engine:
    connector = settings.connector
    return registry_pb2.Engine(
        ref=lease_pb2.EngineRef(engine_id=name, incarnation=uuid.uuid4().hex),
        role=ROLES[settings.role],
        models=[settings.model],
        http_url=settings.front or f"http://{settings.name or settings.host}:{settings.port}",
        data_parallel_rank=settings.rank,
        data_parallel_size=settings.ranks,
        vllm_version="simulated",
        kv_layout=f"simulated, blocks of {settings.limits.block_size}",
        block_size=settings.limits.block_size,
        total_blocks=settings.blocks,
        digest_key_id=connector.digest_key.key_id,
        bidirectional=connector.bidirectional,
        connector_version="1",
    )
