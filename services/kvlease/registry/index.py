"""Numbers of rows by names, in eight bytes each: a table of Python's own takes more than a hundred with its keys."""

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Sequence

SHELVES = 1024
"""So many sorted arrays: entering or leaving one moves a few kilobytes, with a million names."""


class Index:
    """Rows by marks of names, and no names: of the rows that it gives, one may have that name, or none."""

    def __init__(self) -> None:
        self._marks = [array("I") for _ in range(SHELVES)]
        self._rows = [array("I") for _ in range(SHELVES)]

    def rows(self, name: Hashable) -> Sequence[int]:
        """Gives the rows under a name's mark."""
        shelf, mark = _place(name)
        marks = self._marks[shelf]
        at = end = bisect_left(marks, mark)
        while end < len(marks) and marks[end] == mark:
            end += 1
        return self._rows[shelf][at:end] if end > at else ()

    def add(self, name: Hashable, row: int) -> None:
        """Enters a row under a name."""
        shelf, mark = _place(name)
        at = bisect_left(self._marks[shelf], mark)
        self._marks[shelf].insert(at, mark)
        self._rows[shelf].insert(at, row)

    def replace(self, name: Hashable, row: int, by: int) -> None:
        """Puts another row in the place of one that is there."""
        shelf, at = self._find(name, row)
        self._rows[shelf][at] = by

    def remove(self, name: Hashable, row: int) -> None:
        """Takes out a row that is there."""
        shelf, at = self._find(name, row)
        del self._marks[shelf][at], self._rows[shelf][at]

    def _find(self, name: Hashable, row: int) -> tuple[int, int]:
        shelf, mark = _place(name)
        return shelf, self._rows[shelf].index(row, bisect_left(self._marks[shelf], mark))


def _place(name: Hashable) -> tuple[int, int]:
    """The shelf and the mark of a name."""
    number = hash(name)
    return number % SHELVES, number // SHELVES & 0xFFFFFFFF
