"""The connector in vLLM's scheduler: what is read for a request, what is kept after it, and when it is let go.

Every method runs in vLLM's scheduling loop and returns at once; `_pause` tells of the one exception. A request with a
ticket has a `Turn`; all others go to the stock code, made safe by `stock`.
"""

import time
from collections.abc import Mapping
from typing import Any

import structlog
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_scheduler import NixlPullConnectorScheduler
from vllm.v1.request import RequestStatus

from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.connector import admission, allocation, identity, wakeup
from kvlease.connector.body import CODEC
from kvlease.connector.clock import Clock
from kvlease.connector.counts import Counts
from kvlease.connector.harvest import Ending, Harvest
from kvlease.connector.link import Link
from kvlease.connector.loop_thread import LoopThread
from kvlease.connector.owner import Owner
from kvlease.connector.pressure import Pressure
from kvlease.connector.reads import Read, Reads
from kvlease.connector.retention import Retention
from kvlease.connector.settings import Settings
from kvlease.connector.sleepers import Sleepers
from kvlease.connector.stats import LeaseStats
from kvlease.connector.stock import StockParameters
from kvlease.connector.turn import Source, Stage, Turn
from kvlease.v1.registry_pb2 import EngineLoad, ReadOutcome

log = structlog.get_logger()

CLOSE_WAIT = 1.0  # seconds that a stopping engine waits for its readers
PAUSE = 0.05  # seconds, at most, that a step is drawn out in which nothing can be done


class LeasingScheduler(NixlPullConnectorScheduler):  # type: ignore[misc]
    """Stock NIXL scheduling, with reads and retention under leases."""

    def __init__(
        self,
        config: Any,
        kv_cache_config: Any,
        settings: Settings,
        *,
        role: str,
        clock: Clock = time.monotonic,
        link: type[Link] = Link,
    ) -> None:
        """Takes vLLM's configuration, and the KV role as the operator set it."""
        super().__init__(config, identity.nixl_engine_id(config), kv_cache_config)
        self.is_bidirectional_kv_xfer_enabled = False  # of the stock code; ours is settings.bidirectional
        self._settings, self._role = settings, role
        self._groups = len(kv_cache_config.kv_cache_groups)
        self._stock = StockParameters(self._groups, self.block_size)
        self._owner = Owner()
        self._counts = Counts()
        self._turns: dict[str, Turn] = {}
        self._sleepers = Sleepers()
        self._requests = self._running = 0
        self._inputs = wakeup.find()
        self._lockstep = config.parallel_config.data_parallel_size > 1  # other ranks wait while this one does
        self._clock, self._make_link = clock, link
        self._link: Link

    # -- start and stop ------------------------------------------------------------------------------------------

    def bind_gpu_block_pool(self, pool: Any) -> None:
        """Starts the link, now that the pool and so the engine is complete and all workers have been forked."""
        allocation.hand_out_in_order(pool)
        self._retention = Retention(pool)
        self._pressure = Pressure(self._retention.total, self._settings.free_watermark)
        engine = identity.describe(
            self.vllm_config,
            self._settings,
            role=self._role,
            side_channel=f"{self.side_channel_host}:{self.side_channel_port}",
            total_blocks=self._retention.total,
        )
        self._thread = LoopThread("kvlease-link")
        self._link = self._make_link(
            EngineRegistryClient(self._settings.registry, security=self._settings.security),
            EngineRouterClient(self._settings.router, security=self._settings.security),
            engine,
            self._owner,
            load=self._load,
            wake=self._inputs.wake if self._inputs else (lambda: None),
            clock=self._clock,
            codec=CODEC,
            thread=self._thread,
        )
        self._engine = engine
        self._reads = Reads(
            self._link,
            self._retention,
            self._counts,
            groups=self._groups,
            block_size=self.block_size,
            begin=self._begin_read,
            clock=self._clock,
        )
        self._harvest = Harvest(
            self._owner,
            self._link,
            self._retention,
            engine,
            settings=self._settings,
            parameters=identity.parameters(self),
            block_size=self.block_size,
            clock=self._clock,
        )
        self._link.start()

    def shutdown(self) -> None:
        """Gives all leases back and stops."""
        self._link.close(CLOSE_WAIT)
        self._thread.stop()
        super().shutdown()

    def reset_cache(self) -> bool:
        """Answers vLLM, which is about to discard KV (sleep, new weights, `/reset_prefix_cache`).

        With leases held the answer is no, and they are given back: try again once they are gone, or release them
        first (`kvlease release`). vLLM before 0.32 does not heed the answer.
        """
        if not self._owner.leases:
            return True
        log.error("KV is still leased: releasing, try again in a moment", leases=self._owner.leases)
        self._link.release_all()
        return False

    # -- a request comes -----------------------------------------------------------------------------------------

    def on_new_request(self, request: Any) -> None:
        """Asks the control plane, while the request waits for its turn in vLLM's queue."""
        self._requests += 1
        params = request.kv_transfer_params
        turn = admission.admit(request, self._engine, self._settings, self._clock(), groups=self._groups)
        if turn is not None:
            self._turns[request.request_id] = turn
        elif terms := admission.orphaned(params, self._engine):
            self._link.forgo(params["kvlease_ticket"], terms.conversation.tenant)
        elif params:
            tokens = self._get_remote_prefill_token_count(request.num_prompt_tokens)
            if why := self._stock.tame(params, tokens):
                log.warning("transfer parameters not used", request_id=request.request_id, why=why)
        super().on_new_request(request)
        if turn is not None:
            turn.prompt_tokens = request.num_prompt_tokens  # vLLM shortens some prompts
            if turn.source is not Source.NOTHING:
                self._link.ask(turn)

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Tells how many tokens can be read; (None, False): the control plane has not answered yet, ask again."""
        self._pressure.wanted = -(-request.num_tokens // self.block_size)
        turn = self._turns.get(request.request_id)
        if turn is None:
            return super().get_num_new_matched_tokens(request, num_computed_tokens)  # type: ignore[no-any-return]
        turn.begin(num_computed_tokens)
        if turn.source is Source.PREFILL:
            count = turn.parking(self._get_remote_prefill_token_count(turn.prompt_tokens) - num_computed_tokens)
        else:
            offer = self._offer(turn, num_computed_tokens)
            if offer is None:
                self._sleepers.lay(request, turn.deadline)
                return None, False
            count = offer
        return count, count > 0

    def _offer(self, turn: Turn, local_tokens: int) -> int | None:
        offer = turn.offer(local_tokens, self._settings.recompute_threshold, self._clock())
        if offer is None and self._pause(1, turn.deadline):
            offer = turn.offer(local_tokens, self._settings.recompute_threshold, self._clock())
        return offer

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Starts the read that vLLM has allocated for, or parks it until its answer comes."""
        self._pressure.wanted = 0
        turn = self._turns.get(request.request_id)
        if turn is None:
            super().update_state_after_alloc(request, blocks, num_external_tokens)
            return
        if turn.stage is not Stage.ASKED:
            return  # its blocks were allocated before, for the read
        turn.used(turn.local_tokens, num_external_tokens)
        if num_external_tokens == 0:
            self._reads.end(turn, ReadOutcome.READ_OUTCOME_NOT_NEEDED)
        else:
            self._reads.park(turn, request, blocks, num_external_tokens)

    def _begin_read(self, read: Read) -> None:
        super().update_state_after_alloc(read.request, read.blocks, read.tokens)
        self._reqs_in_batch.discard(read.turn.request_id)  # nothing is sent for it the stock way

    # -- every step ----------------------------------------------------------------------------------------------

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        """Carries out what has come from the control plane, and tells the workers."""
        self._running = len(scheduler_output.num_scheduled_tokens)
        self.take_answers()
        if not self._running and self._pause(0, self._sleepers.until):
            self.take_answers()
        now = self._clock()
        self._reads.give_hung_up(now)
        if self._owner.owes(now):
            self._free_due(now)
        if reclaim := self._pressure.reclaim(self._retention, now):
            self._link.beat(reclaim)
        meta = super().build_connector_meta(scheduler_output)
        self._reads.tell(meta)
        return meta

    def has_pending_push_work(self) -> bool:
        """Whether an idle engine must step: to free blocks, or to end a read."""
        now = self._clock()
        return self._owner.owes(now) or self._reads.due(now) or (self._inputs is None and self._owner.leases > 0)

    def update_connector_output(self, output: Any) -> None:
        """Judges the reads that all workers have reported: what came too late never reaches the prefix cache."""
        super().update_connector_output(output)
        self._reads.judge(output)

    def take_answers(self) -> None:
        """Looks what has come from the control plane: between two steps, so that the next one finds it."""
        while self._link.answered:
            turn = self._link.answered.popleft()
            self._sleepers.wake(turn.request_id)
            self._reads.answered(turn)
        if self._sleepers.requests:
            self._sleepers.wake_late(self._clock())

    def _pause(self, asking: int, until: float) -> bool:
        """Sleeps on the engine's inputs while each of its requests waits for the control plane; tells whether it did.

        The *asking* are about to wait, until that instant. Stepping on would bring nothing, and take the processor,
        and Python's lock, from whoever brings the answer: the link's thread, and prefill's engine on a small machine.
        No work is held up: there is none, and whatever brings some, be it an answer, a request or a client who leaves,
        comes through the inputs and ends the pause. What workers report by themselves then (blocks of finished
        requests that were sent) may be seen `PAUSE` later. Ranks in lockstep never pause, for they would be waited for.
        """
        waiting = asking + len(self._sleepers.requests) + len(self._reads.parked)
        if not waiting or waiting != self._requests or self._link.answered or self._inputs is None or self._lockstep:
            return False
        self._inputs.wait(min(PAUSE, until - self._clock()))
        return True

    def _free_due(self, now: float) -> None:
        if (lag := self._owner.lag(now)) is not None:
            self._counts.reclaimed(lag)
        for lease_id, why in self._owner.due(now).items():
            self._retention.let_go(lease_id)
            self._counts.freed(why)
            log.info("lease freed", lease_id=lease_id, why=why)

    # -- a request ends ------------------------------------------------------------------------------------------

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, Mapping[str, Any] | None]:
        """Keeps the request's blocks by reference where a lease is worth it; vLLM frees its own hold at once."""
        self._requests -= 1
        self._pressure.wanted = 0
        turn = self._turns.pop(request.request_id, None)
        if turn is None:
            return super().request_finished(request, block_ids)  # type: ignore[no-any-return]
        self._sleepers.wake(request.request_id)
        self._stop_heartbeat(request.request_id)
        if self._reads.abort(request.request_id):
            self._harvest.forgo(turn)
            return False, None
        self._reads.end(turn, ReadOutcome.READ_OUTCOME_ABORTED)
        self._counts.ended(turn)
        if (ending := _ENDINGS.get(request.status)) is not None:
            computed = request.num_computed_tokens - request.num_in_flight_tokens
            self._harvest.reap(turn, request, self._exchanged(block_ids), ending, computed=computed)
        else:
            self._harvest.forgo(turn)
        return False, None

    def _exchanged(self, block_ids: Any) -> Any:
        clip = getattr(self, "get_exchange_clipped_blocks", None) or self.get_sw_clipped_blocks
        return clip(block_ids)

    # -- what others are told --------------------------------------------------------------------------------------

    def stats(self) -> LeaseStats | None:
        """Returns what has been counted since vLLM asked last: it does in each step."""
        new = self._counts.take(self._owner.leases, self._retention.blocks)
        return None if new is None else LeaseStats.of(new)

    def _load(self) -> EngineLoad:
        """Called on the link's thread: reads counters, nothing else."""
        running = min(self._running, self._requests)
        return EngineLoad(
            running=running,
            waiting=max(0, self._requests - running),
            free_blocks=self._retention.free,
            leased_blocks=self._retention.blocks,
        )


_ENDINGS = {
    RequestStatus.FINISHED_STOPPED: Ending.STOPPED,
    RequestStatus.FINISHED_LENGTH_CAPPED: Ending.LENGTH,
    RequestStatus.FINISHED_ABORTED: Ending.ABORTED,
}
