"""The words of enums: those of `kvlease.v1` and those of `kvlease.client.types`, paired by name."""

from enum import StrEnum
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import EnumDescriptor

from kvlease.client import types
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2

WordT = TypeVar("WordT", bound=StrEnum)


class Words(Generic[WordT]):
    """The words of one enum on both sides: KIND_SOME_WORD there is SOME_WORD here."""

    def __init__(self, here: type[WordT], there: EnumDescriptor) -> None:
        """Pairs them by name; those that only one side has are UNKNOWN and UNSPECIFIED."""
        prefix = there.values_by_number[0].name.removesuffix("UNSPECIFIED")
        names = {value.number: value.name.removeprefix(prefix) for value in there.values}
        self._read = {number: here[name] for number, name in names.items() if name in here.__members__}
        self._write = {word: number for number, word in self._read.items()}
        self._unknown = here["UNKNOWN"]

    def read(self, number: int) -> WordT:
        return self._read.get(number, self._unknown)

    def read_optional(self, number: int) -> WordT | None:
        return self.read(number) if number else None

    def write(self, word: WordT | None) -> Any:
        """Gives the number; typed Any, because every proto enum has a type of its own."""
        return self._write.get(word, 0) if word is not None else 0


ROUTE_MODE = Words(types.RouteMode, router_pb2.RouteMode.DESCRIPTOR)
LEG = Words(types.Leg, router_pb2.Leg.DESCRIPTOR)
PREFILL_STATE = Words(types.PrefillState, router_pb2.PrefillState.DESCRIPTOR)
TICKET_STATE = Words(types.TicketState, router_pb2.TicketState.DESCRIPTOR)
ENGINE_ROLE = Words(types.EngineRole, registry_pb2.EngineRole.DESCRIPTOR)
LEASE_KIND = Words(types.LeaseKind, lease_pb2.LeaseKind.DESCRIPTOR)
LEASE_STATE = Words(types.LeaseState, lease_pb2.LeaseState.DESCRIPTOR)
RETIRE_REASON = Words(types.RetireReason, lease_pb2.RetireReason.DESCRIPTOR)
STOP_REASON = Words(types.StopReason, lease_pb2.StopReason.DESCRIPTOR)
RENEW_STATUS = Words(types.RenewStatus, registry_pb2.RenewStatus.DESCRIPTOR)
LEASE_EVENT_KIND = Words(types.LeaseEventKind, registry_pb2.LeaseEvent.DESCRIPTOR)
