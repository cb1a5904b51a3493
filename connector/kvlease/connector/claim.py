"""A reader's hold on a lease. Pure: no vLLM, no gRPC, no clock."""

from dataclasses import dataclass

from kvlease.v1.lease_pb2 import Lease


@dataclass(slots=True)
class Claim:
    """The blocks of *lease* stay until `end`, which counts from when the claim, or its renewal, was asked for."""

    claim_id: str
    lease: Lease
    end: float

    def extend(self, sent: float, ttl: float) -> None:
        """Notes a renewal that was asked for at *sent*; an answer that comes late never shortens."""
        self.end = max(self.end, sent + ttl)

    def holds(self, now: float) -> bool:
        """Whether what has been read by *now* was surely there."""
        return now < self.end
