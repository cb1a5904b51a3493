"""A tenant's leases in order of arrival: entered at any place and left by any member at little cost."""

from bisect import bisect_right
from collections.abc import Iterator

from kvlease.registry.lease import Lease

PAGE = 256
"""Leases of a page: few enough to look one up among them, many enough that a page costs nothing beside them."""


class Roll:
    """Every lease of a tenant that is not freed, on pages."""

    def __init__(self) -> None:
        self.live = 0
        """Live DECODE leases among them."""
        self._count = 0
        self._pages: list[list[Lease]] = []
        self._firsts: list[int] = []
        """The number with which each page began."""

    def __len__(self) -> int:
        return self._count

    def add(self, lease: Lease) -> None:
        """Takes a lease at the end: later ones have higher numbers."""
        if not self._pages or len(self._pages[-1]) == PAGE:
            self._pages.append([])
            self._firsts.append(lease.seq)
        self._pages[-1].append(lease)
        self._count += 1

    def remove(self, lease: Lease) -> None:
        """Lets a lease go, and its page if it was the last there."""
        number = self._number(lease.seq)
        self._pages[number].remove(lease)
        self._count -= 1
        if not self._pages[number]:
            del self._pages[number], self._firsts[number]

    def after(self, seq: int) -> Iterator[Lease]:
        """Leases that came after a number, oldest first."""
        for number in range(max(0, self._number(seq)), len(self._pages)):
            yield from (x for x in self._pages[number] if x.seq > seq)

    def _number(self, seq: int) -> int:
        """Which page a lease of that number is on, if any."""
        return bisect_right(self._firsts, seq) - 1
