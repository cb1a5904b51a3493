"""The numbers that the rules of leasing need, checked where they are put together. Lengths are seconds."""

from dataclasses import dataclass, field

from kvlease.registry.lease import StopReason

DRIFT = 0.002
"""By what share of a length two clocks may disagree on it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The times that registry and engines keep."""

    heartbeat: float = 1.0
    hold: float = 12.0
    claim: float = 5.0
    margin: float = 1.0
    least_claim: float = 1.0
    """A claim that could only be shorter is refused."""

    def __post_init__(self) -> None:
        """Raises ValueError for times under which a claim could outlive the owner's hold, or none could be given."""
        if min(self.heartbeat, self.hold, self.claim, self.margin, self.least_claim) <= 0:
            raise ValueError("heartbeat, hold, claim, margin and least claim must be above 0")
        if self.claim + 2 * self.heartbeat + self.margin > self.hold:
            raise ValueError("claim + 2 heartbeats + margin must fit into hold: one lost heartbeat would refuse claims")
        if self.least_claim > self.claim:
            raise ValueError("the least claim must not be longer than a claim")
        if self.margin < DRIFT * self.hold:
            raise ValueError(f"margin must be at least {DRIFT:g} of hold: clocks differ")


@dataclass(frozen=True, slots=True)
class Rules:
    """How long leases live, and how many there may be."""

    timing: Timing = field(default_factory=Timing)
    answered_ttl: float = 60.0
    tools_ttl: float = 480.0
    """After an answer that calls tools."""
    prefill_ttl: float = 20.0
    """Decode claims it as soon as it is there; one that went away is waited for no longer than this."""
    longest_life: float = 3600.0
    """However often a lease is renewed."""
    branches: int = 4
    """Live DECODE leases of one conversation."""
    retention: float = 0.5
    """Share of an engine's KV blocks that may be kept for DECODE leases."""
    tenant_leases: int = 0
    """Live DECODE leases of one tenant; 0: no limit."""
    grant_due: float = 2.0
    """How long after a turn's completion claims wait for its grant, within their own wait."""
    tombstone: float = 60.0
    """How long the id of a lease that is gone, or the end of a turn, is remembered."""
    turn_memory: float = 600.0
    """How long a turn that nobody ended is remembered."""
    missed_heartbeats: int = 3
    """So many heartbeats late, an engine counts as unhealthy."""

    def __post_init__(self) -> None:
        """Raises ValueError for numbers that make no sense."""
        lengths = (self.answered_ttl, self.tools_ttl, self.prefill_ttl, self.longest_life, self.grant_due)
        if min(*lengths, self.tombstone, self.turn_memory) <= 0:
            raise ValueError("lengths of time must be above 0")
        if max(self.answered_ttl, self.tools_ttl, self.prefill_ttl) > self.longest_life:
            raise ValueError("the longest life must be at least as long as every ttl")
        if self.tombstone < self.timing.hold:
            raise ValueError("what is gone must be remembered for at least hold, while its owner may still announce it")
        if not 0.0 <= self.retention <= 1.0:
            raise ValueError("the retention share must be between 0 and 1")
        if self.branches < 1 or self.missed_heartbeats < 1 or self.tenant_leases < 0:
            raise ValueError("branches and missed heartbeats must be at least 1, the tenant's limit at least 0")

    def ttl(self, stop_reason: StopReason) -> float:
        """How long a DECODE lease lives unrenewed."""
        return self.tools_ttl if stop_reason is StopReason.TOOLS_CALLED else self.answered_ttl
