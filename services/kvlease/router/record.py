"""One turn as this router knows it: a small state machine that only moves forward."""

import asyncio
import contextlib
import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from kvlease.router.errors import TicketNotFound
from kvlease.router.placement import Placement
from kvlease.router.ticket import Terms
from kvlease.v1.lease_pb2 import PrefillReport

NO_LEASE = "NO_LEASE"
FIRST_TURN = "FIRST_TURN"
"""What a report says in its place of a first turn, of which nothing can be kept."""


class State(enum.Enum):
    """Where a turn is in its life."""

    ROUTED = "routed"
    PREFILLED = "prefilled"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Prefill(enum.Enum):
    """How far its prefill is. A turn without prefill stays PENDING."""

    PENDING = "pending"
    PUBLISHED = "published"
    FAILED = "failed"


class Decision(NamedTuple):
    """How this router came to issue a ticket."""

    request_id: str
    model: str
    leased_tokens: int
    placement: Placement
    ticket: str


@dataclass(slots=True, eq=False)
class Record:
    """A turn. `since` and `expires` are instants of this router's clock; another router's turn has no decision.

    The report is carried as it came, but for one word: engines cannot know that there was nothing to miss.
    """

    terms: Terms
    since: float
    expires: float
    decision: Decision | None = None
    new: bool = False
    """It is the first turn of its conversation, as far as is known here."""
    state: State = State.ROUTED
    prefill: Prefill = Prefill.PENDING
    lease_id: str = ""
    report: PrefillReport | None = None
    _settled: asyncio.Event | None = field(default=None, repr=False)  # made by the first that waits: few do

    @property
    def over(self) -> bool:
        """Tells whether it was completed or cancelled."""
        return self.state in (State.COMPLETED, State.CANCELLED)

    async def prefill_settled(self, wait: float) -> None:
        """Waits until prefill's outcome is known or the turn is over, at most *wait* seconds."""
        if wait <= 0 or self.over or self.prefill is not Prefill.PENDING:
            return
        self._settled = self._settled or asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._settled.wait()

    def release(self) -> None:
        """Ends the waits for prefill's outcome."""
        if self._settled:
            self._settled.set()

    def publish(self, lease_id: str, report: PrefillReport | None) -> None:
        """Notes prefill's lease and report. Raises TicketNotFound when nobody waits for them any more."""
        if self.state is State.CANCELLED or self.prefill is Prefill.FAILED:
            raise TicketNotFound(self.terms.ticket_id)
        self.prefill, self.lease_id = Prefill.PUBLISHED, lease_id
        self.note(report)
        if self.state is State.ROUTED:
            self.state = State.PREFILLED
        self.release()

    def note(self, report: PrefillReport | None) -> None:
        """Keeps prefill's report."""
        if self.new and report and report.miss_reason == NO_LEASE:
            report.miss_reason = FIRST_TURN
        self.report = report

    def fail_prefill(self) -> None:
        """Notes that prefill's KV will not come, or that its lease goes."""
        self.prefill = Prefill.FAILED
        self.release()

    def complete(self) -> None:
        """Notes the answer. Raises TicketNotFound for a cancelled turn."""
        if self.state is State.CANCELLED:
            raise TicketNotFound(self.terms.ticket_id)
        self.state = State.COMPLETED
        self.release()

    def cancel(self) -> bool:
        """Notes that no answer will come; returns False for a completed turn, which stays completed."""
        if self.state is State.COMPLETED:
            return False
        self.state = State.CANCELLED
        self.fail_prefill()
        return True
