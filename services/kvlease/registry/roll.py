"""A tenant's leases in order of arrival: entered at any place and left by any member at little cost."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from kvlease.registry.leases import Lease, Leases

PAGE = 256
"""Leases of a page: few enough to look one up among them, many enough that a page costs nothing beside them."""


class Roll:
    """Every lease of a tenant that is not freed: their rows, on pages."""

    def __init__(self, leases: Leases) -> None:
        self.live = 0
        """Live DECODE leases among them."""
        self._leases = leases
        self._count = 0
        self._pages: list[array[int]] = []
        self._firsts: list[int] = []
        """The number with which each page began."""

    def __len__(self) -> int:
        return self._count

    def add(self, lease: Lease) -> None:
        """Takes a lease at the end: later ones have higher numbers."""
        if not self._pages or len(self._pages[-1]) == PAGE:
            self._pages.append(array("I"))
            self._firsts.append(lease.seq)
        self._pages[-1].append(lease.row)
        self._count += 1

    def remove(self, lease: Lease) -> None:
        """Lets a lease go, and its page if it was the last there."""
        number = self._number(lease.seq)
        self._pages[number].remove(lease.row)
        self._count -= 1
        if not self._pages[number]:
            del self._pages[number], self._firsts[number]

    def after(self, seq: int) -> Iterator[Lease]:
        """Leases that came after a number, oldest first."""
        for number in range(max(0, self._number(seq)), len(self._pages)):
            for row in self._pages[number]:
                lease = self._leases.row(row)
                if lease.seq > seq:
                    yield lease

    def _number(self, seq: int) -> int:
        """Which page a lease of that number is on, if any."""
        return bisect_right(self._firsts, seq) - 1
