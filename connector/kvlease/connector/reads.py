"""Reads that vLLM waits for: parked until their answer comes, then under way, and judged once all ranks have reported.

Every method runs in vLLM's scheduling loop and returns at once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from kvlease.client.trace import carrying
from kvlease.connector import versions
from kvlease.connector.clock import Clock
from kvlease.connector.counts import Counts
from kvlease.connector.link import Link
from kvlease.connector.retention import Retention
from kvlease.connector.turn import QUARANTINE, Answer, Stage, Turn, hangs_after
from kvlease.v1.registry_pb2 import ReadOutcome

log = structlog.get_logger()


@dataclass(slots=True)
class Read:
    """One read, from the allocation of its blocks to its end."""

    turn: Turn
    request: Any
    blocks: Any
    tokens: int
    local_blocks: int
    hung_after: float = math.inf
    failed: bool = False  # on one rank at least; the others' reports may come later
    aborted: bool = False

    @property
    def block_ids(self) -> list[int]:
        """The blocks that are read into; those before them may be other requests' too."""
        return [block_id for ids in self.blocks.get_block_ids() for block_id in ids[self.local_blocks :]]


class Reads:
    """All reads of one engine, and the end of every turn's reading."""

    def __init__(
        self,
        link: Link,
        retention: Retention,
        counts: Counts,
        *,
        groups: int,
        block_size: int,
        begin: Callable[[Read], None],
        clock: Clock,
    ) -> None:
        """Calls *begin* for a read whose request has stock parameters now, so that the workers start it."""
        self._link, self._retention, self._counts = link, retention, counts
        self._groups, self._block_size = groups, block_size
        self._begin, self._clock = begin, clock
        self._open: dict[str, Read] = {}  # vLLM waits for these
        self.parked: set[str] = set()  # of them: those that wait for their answer
        self._given_up: dict[str, Read] = {}  # until the workers report them
        self._thrown_away: dict[str, list[int]] = {}  # to be told to the workers
        self._abandoned: set[str] = set()  # of them: those that the workers need not wait for
        self._quarantine: dict[str, float] = {}
        self._look_at = math.inf  # before then nothing hangs, and no quarantine is over

    # -- between asking and reading ------------------------------------------------------------------------------

    def park(self, turn: Turn, request: Any, blocks: Any, tokens: int) -> None:
        """Starts the read of *tokens* into *blocks*, at once if the turn is answered, else when it is."""
        read = Read(turn, request, blocks, tokens, turn.local_tokens // self._block_size)
        self._open[turn.request_id] = read
        turn.stage = Stage.PARKED
        self.parked.add(turn.request_id)
        if turn.answer is not None:
            self._unpark(read)

    def answered(self, turn: Turn) -> None:
        """Starts the turn's read if it was parked until now."""
        if turn.stage is Stage.PARKED:
            self._unpark(self._open[turn.request_id])

    def abort(self, request_id: str) -> bool:
        """Gives up the read of a request that is gone, if it has one: vLLM holds its blocks until it is reported."""
        if (read := self._open.get(request_id)) is None:
            return False
        read.aborted = True
        read.turn.settle(Answer(miss="ABORTED"))
        if read.turn.stage is Stage.PARKED:
            self.parked.discard(request_id)
            self._throw_away(read, ReadOutcome.READ_OUTCOME_ABORTED)
        return True

    def end(self, turn: Turn, outcome: "ReadOutcome.ValueType", tokens: int = 0) -> None:
        """Ends a turn's reading, and its claim if it has one, after *tokens* were read and used."""
        if (claim := turn.close()) is not None:
            with carrying(turn.trace):
                self._link.finish(claim, outcome, tokens)
            self._counts.read(outcome)

    # -- every step ----------------------------------------------------------------------------------------------

    def due(self, now: float) -> bool:
        """Whether an idle engine must step to end a read."""
        return bool(self._thrown_away) or now > self._look_at

    def give_hung_up(self, now: float) -> None:
        """Gives up what takes too long, and keeps its blocks out of use for a while."""
        if now <= self._look_at:
            return
        for read in [read for read in self._open.values() if now > read.hung_after]:
            request_id = read.turn.request_id
            log.warning("read hangs", request_id=request_id, tokens=read.tokens)
            self._retention.keep(request_id, read.blocks.get_block_ids())
            self._quarantine[request_id] = now + QUARANTINE
            self._link.look_later(QUARANTINE + 1.0)
            self._abandoned.add(request_id)
            self._given_up[request_id] = read
            self._throw_away(read, ReadOutcome.READ_OUTCOME_FAILED)
        for request_id in [r for r, until in self._quarantine.items() if now > until]:
            del self._quarantine[request_id]
            self._retention.let_go(request_id)
        looks = [*self._quarantine.values(), *(read.hung_after for read in self._open.values())]
        self._look_at = min(looks, default=math.inf)

    def tell(self, meta: Any) -> None:
        """Tells the workers what they are to report as failed, and what they need not wait for; seldom anything."""
        if self._thrown_away:
            meta.kvlease_thrown_away, self._thrown_away = self._thrown_away, {}
            meta.kvlease_abandoned, self._abandoned = self._abandoned, set()

    def judge(self, output: Any) -> None:
        """Judges the reads that all workers have reported; what came too late is kept from vLLM."""
        if not (self._open or self._given_up):
            return
        if versions.any_failed(output):
            for request_id, read in (self._open | self._given_up).items():
                read.failed |= versions.read_failed(output, request_id, read.block_ids)
        if not (ended := output.finished_recving):
            return
        for request_id in self._given_up.keys() & ended:
            self._judge_given_up(output, self._given_up.pop(request_id))
        for request_id in self._open.keys() & ended:
            self._judge(output, self._open.pop(request_id))

    # -- one read ------------------------------------------------------------------------------------------------

    def _unpark(self, read: Read) -> None:
        turn = read.turn
        self.parked.discard(turn.request_id)
        end = turn.local_tokens + read.tokens
        if turn.usable_tokens < end or not self._fill(read, end):
            self._throw_away(read, ReadOutcome.READ_OUTCOME_NOT_NEEDED)
            return
        turn.stage = Stage.READING
        read.hung_after = self._clock() + hangs_after(read.tokens)
        self._look_at = min(self._look_at, read.hung_after)
        self._begin(read)

    def _fill(self, read: Read, end: int) -> bool:
        """Gives the request stock parameters for exactly the blocks to be read; False: they do not fit."""
        params = read.turn.params
        groups = params["remote_block_ids"]
        if len(groups) != self._groups:
            return False
        if self._groups == 1:  # read blocks align by their end
            needed = -(-end // self._block_size)
            if len(groups[0]) < needed:
                return False
            groups = (groups[0][:needed],)
        read.request.kv_transfer_params = {
            **params,
            "remote_block_ids": groups,
            "remote_num_tokens": end,
            "remote_request_id": f"HB:{read.turn.terms.ticket_id}",  # the owner's workers take it for a heartbeat
            "do_remote_prefill": True,
        }
        return True

    def _judge(self, output: Any, read: Read) -> None:
        outcome = read.turn.judge(self._clock(), failed=read.failed)
        if read.aborted:
            outcome = ReadOutcome.READ_OUTCOME_ABORTED
        elif outcome == ReadOutcome.READ_OUTCOME_LATE:
            self._await_failure(output, read)
        self.end(read.turn, outcome, read.tokens if outcome == ReadOutcome.READ_OUTCOME_USED else 0)

    def _judge_given_up(self, output: Any, read: Read) -> None:
        if read.failed:  # NIXL may still write: vLLM is to free all of its blocks and compute into others
            read.request.num_computed_tokens = 0
        elif not read.request.is_finished():  # it ended as it was given up, after its claim
            self._await_failure(output, read)

    def _await_failure(self, output: Any, read: Read) -> None:
        """Keeps an end from vLLM that is good for nothing: in the next step the workers report it as failed."""
        output.finished_recving.discard(read.turn.request_id)
        self._thrown_away[read.turn.request_id] = read.block_ids

    def _throw_away(self, read: Read, outcome: "ReadOutcome.ValueType") -> None:
        """Ends a read that has no transfer (any more): the workers report it, and vLLM computes."""
        del self._open[read.turn.request_id]
        answer = read.turn.answer
        read.turn.fail(answer.miss if answer and answer.miss else "READ_GIVEN_UP")
        self._thrown_away[read.turn.request_id] = read.block_ids
        self.end(read.turn, outcome)
