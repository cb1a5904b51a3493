"""Every refusal has a status, and enums say the same here and on the wire."""

import enum
import inspect

import pytest
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from kvlease.registry import change, claims, errors, lease, renewals, turns
from kvlease.registry.statuses import STATUSES
from kvlease.v1 import lease_pb2, registry_pb2


def test_every_error_has_a_row() -> None:
    classes = {cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.Refusal)}

    assert classes - {errors.Refusal} == set(STATUSES)


@pytest.mark.parametrize(
    ("ours", "wire", "prefix"),
    [
        (lease.Kind, lease_pb2.LeaseKind, "LEASE_KIND_"),
        (lease.State, lease_pb2.LeaseState, "LEASE_STATE_"),
        (lease.Reason, lease_pb2.RetireReason, "RETIRE_REASON_"),
        (lease.StopReason, lease_pb2.StopReason, "STOP_REASON_"),
        (change.Event, registry_pb2.LeaseEvent, "LEASE_EVENT_"),
        (claims.ReadOutcome, registry_pb2.ReadOutcome, "READ_OUTCOME_"),
        (renewals.Outcome, registry_pb2.RenewStatus, "RENEW_STATUS_"),
        (turns.TurnOutcome, registry_pb2.TurnOutcome, "TURN_OUTCOME_"),
    ],
)
def test_numbers_are_those_of_the_wire(ours: type[enum.IntEnum], wire: EnumTypeWrapper, prefix: str) -> None:
    theirs = {number: name.removeprefix(prefix) for name, number in wire.items() if number}

    assert {x.value: x.name for x in ours if x} == theirs
