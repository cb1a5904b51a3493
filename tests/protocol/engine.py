"""An engine as a process: the simulator's, with the connector's own session, claims and leases, stepped as vLLM steps.

vLLM's scheduler thread and the link's thread share the process's one loop. An idle engine does nothing until somebody
wakes it: whatever is due by the clock alone must be noticed by the link.
"""

import asyncio
import contextlib
from itertools import count

from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.connector.loop_thread import LoopThread
from kvlease.connector.owner import Owner
from kvlease.connector.settings import Settings as ConnectorSettings
from kvlease.sim.connector import Connector
from kvlease.sim.engine import Engine as SimEngine
from kvlease.sim.faults import Switches
from kvlease.sim.latency import Latency
from kvlease.sim.pool import BlockPool
from kvlease.sim.request import Request
from kvlease.sim.scheduler import Batch, Limits, Scheduler
from kvlease.sim.settings import ROLES, Settings
from kvlease.sim.wire import Wire
from kvlease.v1.lease_pb2 import EngineRef
from kvlease.v1.registry_pb2 import Engine as Description
from tests.protocol.calls import Hosts
from tests.protocol.services import REGISTRY, ROUTER
from tests.protocol.timeline import Process

BLOCK = 128
"""Tokens; also the stride of the prefix proof, so that any block boundary can be a branch."""
RETRY, LOOK = 0.02, 0.25
LATENCY = Latency(step=0.01, prefill_token=0.0, token=0.05, transfer=0.02, transfer_token=0.0)


class Engine(SimEngine):
    """One start of one engine."""

    def __init__(self, process: Process, hosts: Hosts, wire: Wire, role: str, blocks: int, names: "count[int]") -> None:  # noqa: PLR0917 - a world's parts
        self.process = process
        self.ref = EngineRef(engine_id=process.name, incarnation=f"{process.name}.{next(names)}")
        self.slow = 0.0
        """Seconds that each step, and each look of an idle engine, takes longer."""
        self.requests: list[Request] = []
        self._woken = asyncio.Event()
        pool, switches = BlockPool(blocks), Switches(process.clock)
        settings = _settings(role, blocks)
        connector = Connector(
            settings,
            _describe(settings, self.ref),
            pool,
            wire,
            thread=_Thread(process),
            switches=switches,
            load=lambda: (0, len(self.requests)),
            wake=self._woken.set,
            wake_from_thread=self._woken.set,
            clock=process.clock,
        )
        _connect(connector, hosts, process)
        scheduler = Scheduler(pool, connector, settings.limits)
        super().__init__(scheduler, connector, pool, settings.latency, switches, wake=self._woken, clock=process.clock)

    def start(self) -> None:
        """Serves, and opens its session."""
        task = self.process.loop.create_task(self.run())
        task.add_done_callback(lambda done: done.cancelled() or done.result())
        self.connector.start()

    def slow_reads(self, seconds: float) -> None:
        """Lets each read that begins from now on take so much longer."""
        self._switches.set({"read_delay": seconds})

    def kill(self) -> None:
        """Ends at once."""
        self.connector._wire.detach(self.ref.incarnation)
        self.process.kill()

    @property
    def owner(self) -> Owner:
        return self.connector.owner

    @property
    def idle_blocks(self) -> int:
        """Blocks that are not free though nothing runs here: leases', and such as leaked."""
        return self.pool.num_gpu_blocks - 1 - self.pool.get_num_free_blocks()

    async def _compute(self, batch: Batch) -> None:
        if self.slow:
            await asyncio.sleep(self.slow)
        await super()._compute(batch)

    async def _idle(self) -> None:
        """Waits for something to do, as long as vLLM would: for ever while there is no request and no read."""
        patience = RETRY if self.scheduler.waiting else LOOK if self.connector._leasing.reads else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), patience)
        if self.slow:
            await asyncio.sleep(self.slow)


class _Thread(LoopThread):
    """The link's thread, which is the process's only one here."""

    def __init__(self, process: Process) -> None:
        self.loop = process.loop

    @property
    def running(self) -> bool:
        return True


def _connect(connector: Connector, hosts: Hosts, process: Process) -> None:
    """Lets the connector's clients call over the pretended network."""
    registry, router = connector.link._clients
    registry._opened = hosts.client(EngineRegistryClient, process, REGISTRY)._opened
    router._opened = hosts.client(EngineRouterClient, process, ROUTER)._opened


def _settings(role: str, blocks: int) -> Settings:
    connector = ConnectorSettings.of({"bidirectional_kv_xfer": True}, {})
    limits = Limits(block_size=BLOCK, prefix_caching=role != "prefill")
    return Settings(role=role, connector=connector, blocks=blocks, limits=limits, latency=LATENCY)


def _describe(settings: Settings, ref: EngineRef) -> Description:
    return Description(
        ref=ref,
        role=ROLES[settings.role],
        models=[settings.model],
        http_url=f"http://{ref.engine_id}:8000",
        kv_layout="simulated",
        block_size=BLOCK,
        total_blocks=settings.blocks,
        digest_key_id=settings.connector.digest_key.key_id,
        bidirectional=True,
    )
