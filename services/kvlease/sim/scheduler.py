"""Which requests compute in the next step, and on which blocks: vLLM's rules in small. No clock, no I/O.

Running requests come first and are preempted, the youngest first, when no block is left. Waiting ones follow in order;
one that the connector has no answer for yet is passed over, one that there is no room for makes the rest wait.
"""

import enum
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from kvlease.sim.pool import Block, BlockPool, right
from kvlease.sim.request import Request, State

Batch = list[tuple[Request, int]]
"""Requests, and how many tokens each computes."""


class Connector(Protocol):
    """What the scheduler asks; see `leasing.Leasing`."""

    def offer(self, request: Request, local_tokens: int) -> int | None:
        """Returns how many tokens beyond *local_tokens* another engine has; None: not known yet."""

    def allocated(self, request: Request, external_tokens: int) -> None:
        """The request has its blocks; *external_tokens* of them are to be filled by a read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one step may hold, and whether full blocks are kept to be found again."""

    requests: int = 256
    tokens: int = 8192
    block_size: int = 16
    prefix_caching: bool = True


class _Place(enum.Enum):
    READY = enum.auto()
    REMOTE = enum.auto()
    NOT_YET = enum.auto()
    NO_ROOM = enum.auto()


class Scheduler:
    """The requests of one engine that are not over."""

    def __init__(self, pool: BlockPool, connector: Connector, limits: Limits) -> None:
        self._pool, self._connector, self._limits = pool, connector, limits
        self.waiting: deque[Request] = deque()
        self.remote: set[Request] = set()
        self.running: list[Request] = []
        self.preemptions = 0

    def add(self, request: Request) -> None:
        """Takes a new request."""
        self.waiting.append(request)

    def arrived(self, request: Request, tokens: int) -> None:
        """A read has ended, after which the KV of the first *tokens* tokens is there."""
        self._check(request, tokens)
        self.remote.discard(request)
        request.state = State.WAITING
        request.computed = min(tokens, request.num_tokens - 1)
        self._cache(request, 0)
        self.waiting.appendleft(request)

    def restart(self, request: Request) -> None:
        """A read has failed in such a way that its blocks are lost to the request."""
        self.remote.discard(request)
        self._put_back(request)

    def remove(self, request: Request) -> None:
        """Forgets a request that is over; its blocks are the caller's to free."""
        if request.state is State.RUNNING:
            self.running.remove(request)
        elif request.state is State.REMOTE:
            self.remote.discard(request)
        else:
            self.waiting.remove(request)
        request.state = State.OVER

    def schedule(self) -> Batch:
        """Chooses what the next step computes."""
        budget, preempted = self._limits.tokens, self.preemptions
        batch: Batch = []
        for request in list(self.running):
            count = min(request.num_tokens - request.computed, budget)
            if request.state is State.RUNNING and count and self._extend(request, request.computed + count):
                batch.append((request, count))
                budget -= count
        if self.preemptions == preempted:
            self._admit(batch, budget)
        return batch

    def computed(self, batch: Batch) -> list[Request]:
        """Notes that a step is done; returns the requests that it gives a token for."""
        sampled = []
        for request, count in batch:
            if request.state is State.RUNNING:
                done, request.computed = request.computed, request.computed + count
                self._tag(request, done)
                if request.computed == request.num_tokens:
                    sampled.append(request)
        return sampled

    def seal(self, request: Request) -> None:
        """Checks the blocks of a request for the last time and tags the unfinished one."""
        size = self._limits.block_size
        self._check(request, request.computed // size * size)
        if request.computed % size:
            tag = self._trusted(request, request.sequence.digest(request.computed))
            request.blocks[request.computed // size].tag = tag

    def _admit(self, batch: Batch, budget: int) -> None:
        passed_over: list[Request] = []
        while self.waiting and budget and len(self.running) < self._limits.requests:
            request = self.waiting.popleft()
            place = self._place(request)
            if place is _Place.NO_ROOM:
                self.waiting.appendleft(request)
                break
            if place is _Place.NOT_YET:
                passed_over.append(request)
            elif place is _Place.READY:
                count = min(request.num_tokens - request.computed, budget)
                batch.append((request, count))
                budget -= count
        self.waiting.extendleft(reversed(passed_over))

    def _place(self, request: Request) -> _Place:
        """Finds blocks for a waiting request: its own, those of the prefix cache, and free ones."""
        if request.blocks:
            return self._run(request) if self._allocate(request, []) else _Place.NO_ROOM
        found = self._found(request)
        external = self._connector.offer(request, len(found) * self._limits.block_size)
        if external is None:
            return _Place.NOT_YET
        if not self._allocate(request, found):
            return _Place.NO_ROOM
        request.computed = len(found) * self._limits.block_size
        self._check(request, request.computed)
        if external:
            request.state = State.REMOTE
            self.remote.add(request)
        self._connector.allocated(request, external)
        return _Place.REMOTE if external else self._run(request)

    def _run(self, request: Request) -> _Place:
        request.state = State.RUNNING
        self.running.append(request)
        if request.cached is None:
            request.cached = request.computed
        return _Place.READY

    def _found(self, request: Request) -> list[Block]:
        """Returns the cached blocks that the request begins with. One token at least is left to compute."""
        if not self._limits.prefix_caching:
            return []
        found = []
        for tag in request.sequence.whole((request.num_tokens - 1) // self._limits.block_size):
            block = self._pool.cached((request.cache_salt, tag))
            if block is None:
                break
            found.append(block)
        return found[: (request.num_tokens - 1) // self._limits.block_size]

    def _allocate(self, request: Request, found: list[Block]) -> bool:
        """Gives the request blocks for all of its tokens."""
        self._pool.touch(found)
        missing = -(-request.num_tokens // self._limits.block_size) - len(found) - len(request.blocks)
        taken = self._pool.take(max(0, missing))
        if taken is None:
            self._pool.free_blocks(reversed(found))
            return False
        request.blocks += found + taken
        return True

    def _extend(self, request: Request, tokens: int) -> bool:
        """Gives a running request blocks for *tokens* tokens, if need be those of others; False: it lost its own."""
        missing = -(-tokens // self._limits.block_size) - len(request.blocks)
        if missing <= 0:
            return True
        while (taken := self._pool.take(missing)) is None:
            victim = self.running[-1]
            self._preempt(victim)
            if victim is request:
                return False
        request.blocks += taken
        return True

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        self._put_back(request)
        self.preemptions += 1

    def _put_back(self, request: Request) -> None:
        self._pool.free_blocks(reversed(request.blocks))
        request.blocks, request.computed, request.state = [], 0, State.WAITING
        self.waiting.appendleft(request)

    def _tag(self, request: Request, done: int) -> None:
        """Tags the blocks that were filled since *done* tokens were computed."""
        size = self._limits.block_size
        first, full = done // size, request.computed // size
        if first < full:
            tags = request.sequence.whole(full)
            for index in range(first, full):
                request.blocks[index].tag = self._trusted(request, tags[index])
            self._cache(request, first)

    def _cache(self, request: Request, first: int) -> None:
        """Makes the full blocks from number *first* on found by others."""
        if self._limits.prefix_caching:
            full = request.computed // self._limits.block_size
            tags = request.sequence.whole(full)
            for index in range(first, full):
                self._pool.cache(request.blocks[index], (request.cache_salt, tags[index]))

    def _trusted(self, request: Request, tag: bytes) -> bytes | None:
        """Returns the tag of KV that was computed by *request*: what follows wrong KV is wrong."""
        return None if request.wrong else tag

    def _check(self, request: Request, tokens: int) -> None:
        if not right(request.blocks, request.sequence, tokens, self._limits.block_size):
            request.wrong = True
