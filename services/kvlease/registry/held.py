"""The leases that a session's owner holds, in the order in which it got them."""

from collections.abc import Iterator

from kvlease.registry.leases import Lease


class Held:
    """A chain of leases: each knows the ones before and behind it."""

    def __init__(self) -> None:
        self._first: Lease | None = None
        self._last: Lease | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def values(self) -> Iterator[Lease]:
        """Gives them; the one that was given may leave meanwhile."""
        lease = self._first
        while lease is not None:
            behind = lease.behind
            yield lease
            lease = behind

    def add(self, lease: Lease) -> None:
        """Takes a lease at the end."""
        lease.before, lease.behind = self._last, None
        if self._last is None:
            self._first = lease
        else:
            self._last.behind = lease
        self._last = lease
        self._count += 1

    def remove(self, lease: Lease) -> None:
        """Lets a lease go."""
        before, behind = lease.before, lease.behind
        if before is None:
            self._first = behind
        else:
            before.behind = behind
        if behind is None:
            self._last = before
        else:
            behind.before = before
        self._count -= 1
