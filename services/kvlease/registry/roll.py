"""A tenant's leases in order of arrival: entered at any place and left by any member at little cost."""

from bisect import bisect_right
from collections.abc import Iterator

from kvlease.registry.lease import Lease

SLACK = 32


class Roll:
    """Every lease of a tenant that is not freed."""

    def __init__(self) -> None:
        self.live = 0
        """Live DECODE leases among them."""
        self._members: dict[int, Lease] = {}
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self._members)

    def add(self, lease: Lease) -> None:
        """Takes a lease at the end: later ones have higher numbers."""
        self._members[lease.seq] = lease
        self._order.append(lease.seq)

    def remove(self, lease: Lease) -> None:
        """Lets a lease go; what that leaves behind is cleared away now and then."""
        del self._members[lease.seq]
        if len(self._order) > 2 * len(self._members) + SLACK:
            self._order = list(self._members)

    def after(self, seq: int) -> Iterator[Lease]:
        """Leases that came after a number, oldest first."""
        for i in range(bisect_right(self._order, seq), len(self._order)):
            lease = self._members.get(self._order[i])
            if lease is not None:
                yield lease
