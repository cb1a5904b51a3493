"""What is remembered of a turn."""

from dataclasses import dataclass, field

from kvlease.registry.lease import Kind, StopReason
from kvlease.registry.leases import Lease


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
        if lease.kind is Kind.DECODE:
            self.decode.append(lease.lease_id)
        else:
            self.prefill = lease.lease_id
            self.report = report or self.report
