"""The engine's link to the control plane: all of gRPC, on an event loop of another thread.

vLLM's scheduler thread hands work over and never waits. What comes back lies in `Turn.answer`, in `answered`, and in
the owner's frees; `wake` makes an idle engine look.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.client.trace import carrying
from kvlease.connector.body import Codec
from kvlease.connector.claim import Claim
from kvlease.connector.clock import Clock
from kvlease.connector.complaint import fault
from kvlease.connector.granter import Granter
from kvlease.connector.loop_thread import LoopThread
from kvlease.connector.owner import Owner
from kvlease.connector.reader import Reader
from kvlease.connector.session import Session
from kvlease.connector.turn import Turn
from kvlease.v1.lease_pb2 import ConversationKey
from kvlease.v1.registry_pb2 import Engine, EngineLoad, GrantLeaseRequest, ReadOutcome

log = structlog.get_logger()


class Link:
    """Runs an engine's session, its claims and its grants on the thread that it is given."""

    def __init__(
        self,
        registry: EngineRegistryClient,
        router: EngineRouterClient,
        engine: Engine,
        owner: Owner,
        *,
        load: Callable[[], EngineLoad],
        wake: Callable[[], None],
        clock: Clock,
        codec: Codec,
        thread: LoopThread,
    ) -> None:
        """Opens nothing and starts nothing; `start` does. *load* and *wake* are called on *thread*."""
        self.answered: deque[Turn] = deque()
        self._wake = wake
        self._thread, self._loop = thread, thread.loop
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients = (registry, router)
        self._engine = engine
        self._session = Session(registry, engine, owner, load=load, wake=wake, clock=clock)
        self._reader = Reader(
            registry, router, self._session, engine.ref, codec=codec, answered=self._answer, clock=clock
        )
        self._granter = Granter(registry, router, self._session, engine.ref, owner, wake=wake, clock=clock)

    def start(self) -> None:
        """Starts the thread; not before the process has forked its workers."""
        if not self._engine.bidirectional:
            off = "bidirectional_kv_xfer is off: nothing is kept for later turns, and none of theirs read back"
            log.warning(off, engine=self._engine.ref.engine_id)
        self._thread.start()
        self._hand_over(self._session.keep())

    def close(self, wait: float) -> None:
        """Gives the leases back and ends the session, within about *wait* + 2 seconds."""
        if not self._thread.running:
            return
        closing = asyncio.run_coroutine_threadsafe(self._close(wait), self._loop)
        with contextlib.suppress(TimeoutError):
            closing.result(wait + 2)

    def drop(self) -> None:
        """Ends at once and without a word, as the process's death would; the thread goes on."""
        asyncio.run_coroutine_threadsafe(self._drop(), self._loop)

    @property
    def connected(self) -> bool:
        """The registry answers: what is asked of it has a chance."""
        return self._session.credential is not None

    def ask(self, turn: Turn) -> None:
        """Proves the turn's ticket and claims what it reads; settles the turn."""
        with carrying(turn.trace):
            self._hand_over(self._reader.ask(turn))

    def finish(self, claim: Claim, outcome: "ReadOutcome.ValueType", tokens: int = 0) -> None:
        """Ends a claim after *tokens* were read under it and used."""
        self._hand_over(self._reader.finish(claim, outcome, tokens))

    def grant(self, request: GrantLeaseRequest, fill: Callable[[GrantLeaseRequest], None], ticket: str) -> None:
        """Asks for a lease that the owner keeps already, once *fill* has completed the request here."""
        self._hand_over(self._granter.grant(request, fill, ticket))

    def forgo(self, ticket: str, tenant: str) -> None:
        """Lets decode know that there will be no PREFILL lease for this ticket's turn."""
        self._hand_over(self._granter.forgo(ticket, tenant))

    def keep_nothing(self, ticket_id: str, conversation: ConversationKey) -> None:
        """Lets claims of the next turn know that there will be no DECODE lease for this one."""
        self._hand_over(self._granter.keep_nothing(ticket_id, conversation))

    def publish(self, ticket: str, request: GrantLeaseRequest) -> None:
        """Tells the router of a PREFILL lease and its report."""
        self._hand_over(self._granter.publish(ticket, request.lease_id, request.report))

    def look_later(self, seconds: float) -> None:
        """Wakes the engine then: what ends by the clock alone would wait for the next request in an idle one."""
        self._loop.call_soon_threadsafe(self._loop.call_later, seconds, self._wake)

    def beat(self, reclaim_blocks: int = 0) -> None:
        """Sends a heartbeat at once, asking for *reclaim_blocks* back."""
        self._loop.call_soon_threadsafe(self._session.beat, reclaim_blocks)

    def release_all(self) -> None:
        """Gives all leases back; their blocks are due as the registry answers, or orders when they are still read."""
        self._hand_over(self._session.release_all())

    def _answer(self, turn: Turn) -> None:
        self.answered.append(turn)
        self._wake()

    def _hand_over(self, work: Coroutine[Any, Any, None]) -> None:
        self._loop.call_soon_threadsafe(self._spawn, work)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            fault("link task failed", error)

    async def _close(self, wait: float) -> None:
        self._cancel()
        await self._session.close(wait)
        await self._drop()

    async def _drop(self) -> None:
        self._cancel()
        for client in self._clients:
            await client.close()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
