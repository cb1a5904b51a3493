"""What stands in for `kvlease.connector.nixl` in a simulated engine: its parts put together, and stock requests too."""

from collections.abc import Callable
from typing import Any

from kvlease.connector.body import CODEC
from kvlease.connector.harvest import Ending, Harvest
from kvlease.connector.link import Link
from kvlease.connector.loop_thread import LoopThread
from kvlease.connector.owner import Owner
from kvlease.connector.retention import Retention
from kvlease.sim.control import RegistryClient, RouterClient
from kvlease.sim.faults import Switches
from kvlease.sim.leasing import Arrivals, Leasing
from kvlease.sim.pool import BlockPool
from kvlease.sim.request import Finish, Request
from kvlease.sim.settings import Settings
from kvlease.sim.stock import StockHandover
from kvlease.sim.transfers import Transfers
from kvlease.sim.wire import Wire
from kvlease.v1.registry_pb2 import Engine, EngineLoad

CLOSE_WAIT = 1.0  # seconds that a stopping engine waits for its readers

_ENDINGS = {
    Finish.STOP: Ending.STOPPED,
    Finish.TOOLS: Ending.STOPPED,
    Finish.LENGTH: Ending.LENGTH,
    Finish.ABORT: Ending.ABORTED,
}


class Connector:
    """The connector of one engine, from `start` on."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        pool: BlockPool,
        wire: Wire,
        *,
        thread: LoopThread,
        switches: Switches,
        load: Callable[[], tuple[int, int]],
        wake: Callable[[], None],
        wake_from_thread: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        """Takes how many requests run and wait (*load*), and what makes the engine look at what has come."""
        self.pool = pool
        self.retention = Retention(pool)
        self.owner = Owner()
        self.transfers = Transfers(wire, settings.latency, switches, wake=wake, clock=clock)
        self._name, self._wire, self._load, self._wake = engine.ref.incarnation, wire, load, wake
        self.link = Link(
            RegistryClient(settings.connector.registry, switches, settings.connector.security),
            RouterClient(settings.connector.router, switches, settings.connector.security),
            engine,
            self.owner,
            load=self._engine_load,
            wake=wake_from_thread,
            clock=clock,
            codec=CODEC,
            thread=thread,
        )
        size = settings.limits.block_size
        parameters = {"remote_engine_id": self._name, "remote_host": wire.host, "remote_port": wire.port, "tp_size": 1}
        harvest = Harvest(
            self.owner,
            self.link,
            self.retention,
            engine,
            settings=settings.connector,
            parameters=parameters,
            block_size=size,
            clock=clock,
        )
        self._leasing = Leasing(
            self.link,
            self.owner,
            harvest,
            self.retention,
            self.transfers,
            settings=settings.connector,
            engine=engine,
            block_size=size,
            clock=clock,
        )
        self._stock = StockHandover(self.retention, self.transfers, parameters, block_size=size, clock=clock)
        self._with_ticket: set[str] = set()

    def start(self) -> None:
        """Lets others read the blocks, and opens the session."""
        self._wire.attach(self._name, self)
        self.link.start()

    def close(self) -> None:
        """Gives all leases back and ends the session; takes a second or two, on a thread that may wait."""
        self.link.close(CLOSE_WAIT)

    def drop(self) -> None:
        """Is gone at once, for everybody."""
        self.detach()
        self.link.drop()

    def detach(self) -> None:
        """Lets others read no more, and reads nothing itself."""
        self._wire.detach(self._name)
        self.transfers.close()

    def notified(self, request_id: str) -> None:
        """A stock reader has read that request's blocks."""
        self._stock.notified(request_id)
        self._wake()

    @property
    def needs_looking_after(self) -> bool:
        """Something ends by the clock alone."""
        return bool(self._leasing.reads or self.retention.blocks)

    # -- vLLM's hooks --------------------------------------------------------------------------------------------

    def admit(self, request: Request) -> None:
        """A request comes."""
        if self._leasing.admit(request):
            self._with_ticket.add(request.request_id)
        else:
            self._stock.admit(request)

    def offer(self, request: Request, local_tokens: int) -> int | None:
        """Returns how many tokens beyond *local_tokens* another engine has; None: not known yet."""
        return self._part(request).offer(request, local_tokens)

    def allocated(self, request: Request, external_tokens: int) -> None:
        """The request has its blocks; *external_tokens* of them are to be filled by a read."""
        self._part(request).allocated(request, external_tokens)

    def step(self) -> Arrivals:
        """Does what is due at the beginning of a step; returns the reads that are over."""
        while self.transfers.ended:
            request_id, failed = self.transfers.ended.popleft()
            part: Any = self._leasing if request_id in self._with_ticket else self._stock
            part.read(request_id, failed=failed)
        return [*self._leasing.step(), *self._stock.step()]

    def finish(self, request: Request, finish: Finish) -> bool:
        """A request is over; False: its blocks must stay until its read has ended."""
        if request.request_id in self._with_ticket:
            return self._leasing.finish(request, _ENDINGS[finish])
        return self._stock.finish(request, aborted=finish is Finish.ABORT)

    def forget(self, request: Request) -> None:
        """Nothing of the request is left."""
        self._with_ticket.discard(request.request_id)

    def _part(self, request: Request) -> Leasing | StockHandover:
        return self._leasing if request.request_id in self._with_ticket else self._stock

    def _engine_load(self) -> EngineLoad:
        """Called on the link's thread: reads counters, nothing else."""
        running, waiting = self._load()
        return EngineLoad(
            running=running,
            waiting=waiting,
            free_blocks=self.retention.free,
            leased_blocks=self.retention.blocks,
        )
