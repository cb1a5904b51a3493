"""What is remembered of a conversation and of a turn beside their leases."""

from dataclasses import dataclass, field

from kvlease.registry.lease import Kind, Lease, State, StopReason


@dataclass(slots=True, eq=False)
class Turn:
    """One ticket's turn."""

    forget_at: float = 0.0
    completed: bool = False
    cancelled: bool = False
    prefill_failed: bool = False
    nothing_kept: bool = False
    """Whether decode told that it grants nothing."""
    stop_reason: StopReason = StopReason.UNKNOWN
    report: bytes | None = None
    """How prefill came by its KV, as it was told."""
    prefill: str = ""
    """The PREFILL lease's id, once granted."""
    decode: list[str] = field(default_factory=list)
    """DECODE leases' ids."""

    @property
    def takes_prefill(self) -> bool:
        return not (self.completed or self.cancelled or self.prefill_failed)

    def took(self, lease: Lease, report: bytes | None) -> None:
        """Takes note of a lease of this turn."""
        if lease.terms.kind is Kind.DECODE:
            self.decode.append(lease.lease_id)
        else:
            self.prefill = lease.lease_id
            self.report = report or self.report


@dataclass(slots=True, eq=False)
class Branches:
    """A conversation: its leases, whatever their kind, until they are freed, oldest first.

    There may be a million. What most have one or none of is a value that is replaced: containers take more.
    """

    forget_at: float = 0.0
    timed: bool = False
    """Whether a timer is set to forget it."""
    generation: int = 0
    leases: tuple[Lease, ...] = ()
    due: tuple[tuple[str, float], ...] = ()
    """Turns whose grant is due: the ticket's id, and until when."""

    def live(self) -> list[Lease]:
        """The branches: DECODE leases that are live."""
        return [x for x in self.leases if x.terms.kind is Kind.DECODE and x.state is State.LIVE]

    def due_until(self, now: float) -> float | None:
        """Until when a grant is due at most; None when none is."""
        self.due = tuple(x for x in self.due if x[1] > now)
        return max((until for _, until in self.due), default=None)

    def add(self, lease: Lease) -> None:
        self.leases += (lease,)

    def remove(self, lease: Lease) -> None:
        self.leases = tuple(x for x in self.leases if x is not lease)

    def mark_due(self, ticket_id: str, until: float) -> None:
        """Lets claims wait for a turn's grant."""
        self.due += ((ticket_id, until),)

    def not_due(self, ticket_id: str) -> bool:
        """Takes a turn out of those whose grant is due; false if it was not among them."""
        before = self.due
        self.due = tuple(x for x in before if x[0] != ticket_id)
        return self.due != before

    def number(self, wanted: int = 0) -> int:
        """Numbers a lease: as wanted, unless a live branch has that number, or with the next."""
        if not wanted or any(x.generation == wanted for x in self.live()):
            wanted = self.generation + 1
        self.generation = max(self.generation, wanted)
        return wanted
