"""One simulated engine: the loop that steps its scheduler, and what becomes of its requests."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable

import structlog

from kvlease.sim import answer
from kvlease.sim.connector import Connector
from kvlease.sim.faults import Switches
from kvlease.sim.latency import Latency
from kvlease.sim.pool import BlockPool
from kvlease.sim.request import Finish, Request, State
from kvlease.sim.scheduler import Batch, Scheduler
from kvlease.sim.tokens import CALL, END

log = structlog.get_logger()

_RETRY = 0.002  # seconds until requests that could not be placed are looked at again
_LOOK = 0.25  # seconds between looks at what ends by the clock alone


class Engine:
    """Steps while there is work, like vLLM's engine core."""

    def __init__(
        self,
        scheduler: Scheduler,
        connector: Connector,
        pool: BlockPool,
        latency: Latency,
        switches: Switches,
        *,
        wake: asyncio.Event,
        clock: Callable[[], float],
    ) -> None:
        """Is stepped anew whenever *wake* is set."""
        self.scheduler, self.connector, self.pool = scheduler, connector, pool
        self._latency, self._switches, self._wake, self._clock = latency, switches, wake, clock
        self._due = 0.0
        self._aborts: list[Request] = []
        self.finished: Counter[Finish] = Counter()
        self.prompt_tokens = self.generated_tokens = self.wrong_answers = 0

    def submit(self, request: Request) -> None:
        """Takes a request."""
        self.connector.admit(request)
        self.scheduler.add(request)
        self._wake.set()

    def abort(self, request: Request) -> None:
        """Ends a request before the next step; nothing if it is over."""
        self._aborts.append(request)
        self._wake.set()

    def abort_all(self) -> int:
        """Ends all requests before the next step; returns how many."""
        requests = [*self.scheduler.running, *self.scheduler.waiting, *self.scheduler.remote]
        self._aborts += requests
        self._wake.set()
        return len(requests)

    async def run(self) -> None:
        """Steps until cancelled."""
        while True:
            if self._switches.span("freeze"):
                await self._switches.thawed()
            self._wake.clear()
            self._begin_step()
            batch = self.scheduler.schedule()
            if batch:
                await self._compute(batch)
            else:
                await self._idle()

    def _begin_step(self) -> None:
        aborts, self._aborts = self._aborts, []
        for request in aborts:
            if request.state is not State.OVER:
                self._finish(request, Finish.ABORT)
        for request, tokens in self.connector.step():
            if request.state is State.OVER:
                self._free(request)
            elif tokens is None:
                self.scheduler.restart(request)
            else:
                self.scheduler.arrived(request, tokens)

    async def _compute(self, batch: Batch) -> None:
        decoding = [count for request, count in batch if request.num_output_tokens]
        prefilled = sum(count for request, count in batch if not request.num_output_tokens)
        takes = self._latency.of_step(prefilled, len(decoding))
        now = self._clock()
        self._due = max(self._due, now - takes) + takes  # a timer that was late is made up for
        await asyncio.sleep(self._due - now if takes else 0)
        for request in self.scheduler.computed(batch):
            self._sample(request)

    async def _idle(self) -> None:
        """Waits for something to do."""
        patience = _RETRY if self.scheduler.waiting else _LOOK if self.connector.needs_looking_after else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), patience)

    def _sample(self, request: Request) -> None:
        """Says one more token."""
        tokens = request.sequence.tokens
        if not request.num_output_tokens:
            self._prompt_done(request)
        if request.tools and not request.num_output_tokens:
            tokens.append(CALL)
        elif request.words == request.natural:
            tokens.append(END)
            self._finish(request, Finish.TOOLS if request.tools else Finish.STOP)
            return
        else:
            word = answer.word(request.seed, request.words)
            tokens.append(answer.WORD_TOKENS[word])
            request.words += 1
            request.sink.word(word)
        if request.num_output_tokens >= request.max_tokens:
            self._finish(request, Finish.LENGTH)

    def _prompt_done(self, request: Request) -> None:
        prompt = request.prompt_token_ids
        found = b"".join(block.tag or b"?" for block in request.blocks) if request.wrong else b""
        request.seed = answer.seed(prompt, tainted=found)
        self.prompt_tokens += request.num_prompt_tokens
        request.sink.begin(request)

    def _finish(self, request: Request, finish: Finish) -> None:
        if request.blocks and request.state is not State.REMOTE:
            self.scheduler.seal(request)
        self.scheduler.remove(request)
        if self.connector.finish(request, finish):
            self._free(request)
        self.finished[finish] += 1
        self.generated_tokens += request.num_output_tokens
        if request.wrong:
            self.wrong_answers += 1
            log.error("wrong answer", request_id=request.request_id, tokens=request.num_prompt_tokens)
        request.sink.end(request, finish)

    def _free(self, request: Request) -> None:
        self.pool.free_blocks(reversed(request.blocks))
        request.blocks = []
        self.connector.forget(request)
