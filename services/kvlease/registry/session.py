"""An engine's session: what its owner has promised, what it is told, how many of its blocks are leased."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from kvlease.registry.errors import NumberUnknown
from kvlease.registry.held import Held
from kvlease.registry.lease import EngineRef, Kind, Reason, State
from kvlease.registry.leases import Lease

REMEMBERED = 1024
"""Answers whose sending is remembered. Of more that are never acknowledged, the oldest are forgotten, on the safe
side: their receipt proves nothing then."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine as it describes itself. The profile is the whole description, for those who list engines."""

    ref: EngineRef
    models: tuple[str, ...]
    total_blocks: int
    profile: bytes


class Credential(NamedTuple):
    """Shows that the caller owns a session."""

    session_id: str
    secret: str


@dataclass(slots=True)
class Order:
    """Tells the owner to free a lease; `number` is the first answer that said so. Repeated until received."""

    reason: Reason
    number: int = 0
    received: bool = False


@dataclass(slots=True, eq=False)
class Session:
    """Answers are numbered from 0, which is the one that opened it. Instants are the ledger's."""

    credential: Credential
    engine: Engine
    budget: int
    heartbeat_at: float
    open: bool = True
    """Until it is replaced, closed or reaped; after that nothing of it is claimed, and its promise stands still."""
    draining: bool = False
    """So its engine says."""
    drained: bool = False
    """So an operator says."""
    load: bytes = b""
    leases: Held = field(default_factory=Held)
    orders: dict[str, Order] = field(default_factory=dict)
    notices: dict[str, int | None] = field(default_factory=dict)
    """Leases whose remaining time the owner does not know yet, and the first answer that tells it."""
    number: int = 0
    acknowledged: int = -1
    live_leases: int = 0
    leased_blocks: int = 0
    claimed_blocks: int = 0
    kept_blocks: int = 0
    freeing_blocks: int = 0
    reported_blocks: int = 0
    """KV blocks kept for leases, shared ones once, by the last heartbeat; 0: not told."""
    granted_since: int = 0
    """Blocks of DECODE leases granted since then."""
    _sent: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _promised_from: float = -math.inf

    def __post_init__(self) -> None:
        self._sent.append((0, self.heartbeat_at))

    def promised_until(self, kept: float) -> float:
        """Until when the owner surely keeps its blocks, if it keeps them so long after each receipt."""
        return self._promised_from + kept

    def acknowledge(self, number: int) -> None:
        """Takes note that the owner has received this answer. Raises NumberUnknown for one that was not sent."""
        if number > self.number:
            raise NumberUnknown(number)
        if number <= self.acknowledged:
            return
        self.acknowledged = number
        while self._sent and self._sent[0][0] <= number:
            self._promised_from = self._sent.popleft()[1]
        self.notices = {key: first for key, first in self.notices.items() if first is None or first > number}

    def answer(self, now: float) -> int:
        """Numbers the next answer, and counts what it tells as told with it."""
        self.number += 1
        self._sent.append((self.number, now))
        for order in self.orders.values():
            order.number = order.number or self.number
        self.notices = {key: self.number if first is None else first for key, first in self.notices.items()}
        return self.number

    def receive_orders(self) -> list[str]:
        """Marks orders as received, by what was acknowledged; returns the leases of those that were not before."""
        new = [x for x in self.orders.items() if x[1].number and not x[1].received and x[1].number <= self.acknowledged]
        for _, order in new:
            order.received = True
        return [lease_id for lease_id, _ in new]

    @property
    def retained_blocks(self) -> int:
        """Blocks that conversations keep: those of their leases, or fewer where the owner tells that leases share."""
        if not self.reported_blocks:
            return self.kept_blocks
        return min(self.kept_blocks, self.reported_blocks + self.granted_since)

    def tally(self, lease: Lease, sign: int) -> None:
        """Adds a lease to the counts, or takes it out, as it is at this moment."""
        state, blocks = lease.state, sign * lease.blocks
        if state is State.FREED:
            return
        self.leased_blocks += blocks
        self.claimed_blocks += blocks if lease.claims else 0
        self.freeing_blocks += blocks if state is State.FREEING else 0
        if lease.kind is Kind.DECODE:
            self.kept_blocks += blocks if state <= State.RETIRING else 0
            self.live_leases += sign if state is State.LIVE else 0

    def move(self, lease: Lease, state: State) -> None:
        """Moves a lease to a state, and the counts with it."""
        before, blocks = lease.state, lease.blocks
        lease.state = state
        self.freeing_blocks += blocks * ((state is State.FREEING) - (before is State.FREEING))
        if lease.kind is Kind.DECODE:
            self.kept_blocks += blocks * ((state <= State.RETIRING) - (before <= State.RETIRING))
            self.live_leases += (state is State.LIVE) - (before is State.LIVE)
        if state is State.FREED:
            self.leased_blocks -= blocks
            self.claimed_blocks -= blocks if lease.claims else 0

    def claimed(self, lease: Lease) -> None:
        """Counts a claim more on a lease."""
        if not lease.claims:
            self.claimed_blocks += lease.blocks
        lease.claims += 1

    def unclaimed(self, lease: Lease) -> None:
        """Counts a claim less on a lease."""
        lease.claims -= 1
        if not lease.claims and lease.state is not State.FREED:
            self.claimed_blocks -= lease.blocks
