"""What operations tell those who watch or wait."""

import enum
from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

from kvlease.registry.lease import Reason, State
from kvlease.registry.leases import Lease


class Event(enum.IntEnum):
    """What happened to a lease. Numbers are those of the wire."""

    EXISTS = 1
    SYNCED = 2
    GRANTED = 3
    RENEWED = 4
    CLAIMED = 5
    CLAIM_ENDED = 6
    RETIRED = 7
    FREED = 8


class Change(NamedTuple):
    """An event with the lease's state right after it; the lease itself may have gone on since."""

    event: Event
    lease: Lease
    state: State
    reason: Reason


Topic: TypeAlias = tuple[str, Hashable]
"""What a call waits for: ("turn", ticket id), ("conversation", key) or ("lease", id)."""
