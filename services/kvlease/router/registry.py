"""What the router asks of the registry. Every call ends: where somebody waits for it, within *wait* seconds."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kvlease.router.engine import Engine, EngineKey
from kvlease.router.ticket import Terms
from kvlease.v1.lease_pb2 import PrefillReport, StopReason
from kvlease.v1.registry_pb2 import TurnOutcome


class Branch(NamedTuple):
    """A live DECODE lease of a conversation."""

    holder: EngineKey
    tokens: int
    generation: int


class RegistryRefused(Exception):
    """The registry is there, but would not do what was asked."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the registry refused: {cause}")
        self.cause = cause


class Registry(Protocol):
    """Raises RegistryUnreachable (see `errors`) when no answer came in time, RegistryRefused when it was no."""

    async def engines(self) -> Sequence[Engine]:
        """Returns all engines, those that are lost as well."""

    async def branches(self, tenant: str, conversation_id: str, wait: float) -> Sequence[Branch]:
        """Returns the conversation's live DECODE leases."""

    async def end_turn(
        self, terms: Terms, outcome: TurnOutcome.ValueType, stop_reason: StopReason.ValueType, wait: float
    ) -> PrefillReport | None:
        """Tells how a turn ended; returns prefill's report, if the registry has one."""
