"""The connector's part in the pretended engine: what `kvlease.connector.scheduler` does inside vLLM.

Turns, claims, retention, grants and the session are the connector's own code; only vLLM's hooks are played here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from kvlease.client.trace import carrying
from kvlease.connector import admission
from kvlease.connector.harvest import Ending, Harvest
from kvlease.connector.link import Link
from kvlease.connector.owner import Owner
from kvlease.connector.pressure import Pressure
from kvlease.connector.retention import Retention
from kvlease.connector.settings import Settings
from kvlease.connector.turn import QUARANTINE, Answer, Source, Stage, Turn, hangs_after
from kvlease.sim.request import Request
from kvlease.sim.transfers import Transfer, Transfers
from kvlease.v1.registry_pb2 import Engine, ReadOutcome

log = structlog.get_logger()


Arrivals = list[tuple[Request, int | None]]
"""Requests whose read is over, and how many tokens of each are there. None: its blocks must not be used any more."""


@dataclass(slots=True)
class Read:
    """A read that a request waits for: parked until its answer comes, then under way."""

    turn: Turn
    request: Request
    tokens: int
    hung_after: float = float("inf")
    aborted: bool = False


class Leasing:
    """Reads and retention under leases, of one engine."""

    def __init__(
        self,
        link: Link,
        owner: Owner,
        harvest: Harvest,
        retention: Retention,
        transfers: Transfers,
        *,
        settings: Settings,
        engine: Engine,
        block_size: int,
        clock: Callable[[], float],
    ) -> None:
        self._link, self._owner, self._harvest, self._retention = link, owner, harvest, retention
        self._transfers, self._settings, self._engine = transfers, settings, engine
        self._block_size, self._clock = block_size, clock
        self._pressure = Pressure(retention.total, settings.free_watermark)
        self._turns: dict[str, Turn] = {}
        self._reads: dict[str, Read] = {}
        self._arrived: Arrivals = []
        self._quarantine: dict[str, float] = {}

    @property
    def reads(self) -> int:
        """Requests that wait for a read."""
        return len(self._reads)

    def admit(self, request: Request) -> bool:
        """Asks the control plane about a new request; False: it has no ticket for this engine."""
        turn = admission.admit(request, self._engine, self._settings, self._clock(), groups=1)
        if turn is None:
            params = request.kv_transfer_params or {}
            if terms := admission.orphaned(params, self._engine):
                self._link.forgo(params["kvlease_ticket"], terms.conversation.tenant)
            return False
        self._turns[request.request_id] = turn
        if turn.source is not Source.NOTHING:
            self._link.ask(turn)
        return True

    def offer(self, request: Request, local_tokens: int) -> int | None:
        """Returns how many tokens may be read; None: the control plane has not answered yet."""
        self._pressure.wanted = -(-request.num_tokens // self._block_size)
        turn = self._turns.get(request.request_id)
        if turn is None:
            return 0
        turn.begin(local_tokens)
        if turn.source is Source.PREFILL:
            return turn.parking(turn.prompt_tokens - local_tokens)
        return turn.offer(local_tokens, self._settings.recompute_threshold, self._clock())

    def allocated(self, request: Request, external_tokens: int) -> None:
        """Starts the read that there are blocks for, or parks it until its answer comes."""
        self._pressure.wanted = 0
        turn = self._turns.get(request.request_id)
        if turn is None or turn.stage is not Stage.ASKED:
            return
        turn.used(turn.local_tokens, external_tokens)
        if external_tokens == 0:
            self._end(turn, ReadOutcome.READ_OUTCOME_NOT_NEEDED)
            return
        read = self._reads[request.request_id] = Read(turn, request, external_tokens)
        turn.stage = Stage.PARKED
        if turn.answer is not None:
            self._unpark(read)

    def step(self) -> Arrivals:
        """Carries out what has come from the control plane; returns the reads that are over."""
        now = self._clock()
        while self._link.answered:
            turn = self._link.answered.popleft()
            if turn.stage is Stage.PARKED:
                self._unpark(self._reads[turn.request_id])
        self._throw_hung_away(now)
        self._free_due(now)
        if reclaim := self._pressure.reclaim(self._retention, now):
            self._link.beat(reclaim)
        arrived, self._arrived = self._arrived, []
        return arrived

    def read(self, request_id: str, *, failed: bool) -> None:
        """Judges a read that has ended: what came too late is not used."""
        read = self._reads.pop(request_id, None)
        if read is None:
            return  # thrown away before
        outcome = read.turn.judge(self._clock(), failed=failed)
        if read.aborted:
            outcome = ReadOutcome.READ_OUTCOME_ABORTED
        used = outcome == ReadOutcome.READ_OUTCOME_USED
        self._end(read.turn, outcome, read.tokens if used else 0)
        self._arrived.append((read.request, read.turn.local_tokens + (read.tokens if used else 0)))

    def finish(self, request: Request, ending: Ending) -> bool:
        """Keeps a request's blocks where a lease is worth it; False: a read still writes into them."""
        self._pressure.wanted = 0
        turn = self._turns.pop(request.request_id, None)
        if turn is None:
            return True
        if (read := self._reads.get(request.request_id)) is not None:
            read.aborted = True
            turn.settle(Answer(miss="ABORTED"))
            if turn.stage is Stage.PARKED:
                self._throw_away(read, ReadOutcome.READ_OUTCOME_ABORTED)
            self._harvest.forgo(turn)
            return False
        self._end(turn, ReadOutcome.READ_OUTCOME_ABORTED)
        self._harvest.reap(turn, request, [request.block_ids], ending, computed=request.computed)
        return True

    def _unpark(self, read: Read) -> None:
        turn = read.turn
        end = turn.local_tokens + read.tokens
        if turn.usable_tokens < end or (transfer := self._transfer(read, turn.params, end)) is None:
            self._throw_away(read, ReadOutcome.READ_OUTCOME_NOT_NEEDED)
            return
        turn.stage = Stage.READING
        read.hung_after = self._clock() + hangs_after(read.tokens)
        self._transfers.start(transfer)

    def _transfer(self, read: Read, params: Mapping[str, Any], end: int) -> Transfer | None:
        """Returns what is to be read; None: the handle does not have it."""
        groups = params["remote_block_ids"]
        first, last = read.turn.local_tokens // self._block_size, -(-end // self._block_size)
        if len(groups) != 1 or len(groups[0]) < last:
            return None
        blocks = read.request.blocks[first:last]
        return Transfer(read.turn.request_id, params, groups[0][first:last], blocks, read.tokens)

    def _throw_away(self, read: Read, outcome: "ReadOutcome.ValueType", *, blocks_usable: bool = True) -> None:
        """Ends a read that has no transfer (any more): the request computes."""
        del self._reads[read.turn.request_id]
        answer = read.turn.answer
        read.turn.fail(answer.miss if answer and answer.miss else "READ_GIVEN_UP")
        self._end(read.turn, outcome)
        self._arrived.append((read.request, read.turn.local_tokens if blocks_usable else None))

    def _throw_hung_away(self, now: float) -> None:
        for read in [read for read in self._reads.values() if now > read.hung_after]:
            request_id = read.turn.request_id
            log.warning("read hangs", request_id=request_id, tokens=read.tokens)
            self._retention.keep(request_id, [read.request.block_ids])
            self._quarantine[request_id] = now + QUARANTINE
            self._link.look_later(QUARANTINE + 1.0)
            self._transfers.abandon(request_id)
            self._throw_away(read, ReadOutcome.READ_OUTCOME_FAILED, blocks_usable=False)
        for request_id in [r for r, until in self._quarantine.items() if now > until]:
            del self._quarantine[request_id]
            self._retention.let_go(request_id)

    def _end(self, turn: Turn, outcome: "ReadOutcome.ValueType", tokens: int = 0) -> None:
        if (claim := turn.close()) is not None:
            with carrying(turn.trace):
                self._link.finish(claim, outcome, tokens)

    def _free_due(self, now: float) -> None:
        for lease_id, why in self._owner.due(now).items():
            self._retention.let_go(lease_id)
            log.debug("lease freed", lease_id=lease_id, why=why)
