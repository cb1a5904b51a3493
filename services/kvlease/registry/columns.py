"""Columns of the table of leases, and fields that lie in them."""

from array import array
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

NUMBERS: Mapping[str, str] = {
    "seq": "Q",
    "generation": "Q",
    "granted_at": "d",
    "expires_at": "d",
    "looked_at": "d",
    "renewed_at": "d",
    "used_at": "d",
    "claims": "I",
    "sibling": "I",
    "before": "I",
    "behind": "I",
    "state": "B",
    "reason": "B",
    "stop_reason": "B",
    "returned": "B",
}
"""Columns of numbers, by the types of `array`."""
OBJECTS = ("text", "family", "owner", "gaps")
COLUMNS = (*NUMBERS, *OBJECTS)
T = TypeVar("T")


class Row(Protocol):
    """What has columns: all of them, and its place in each."""

    columns: tuple[Any, ...]
    row: int

    def __init__(self, columns: tuple[Any, ...], row: int) -> None: ...


class Column(Protocol[T]):
    """A field of leases that lies in a column."""

    def __get__(self, lease: Row, of: type[Row]) -> T: ...

    def __set__(self, lease: Row, value: T) -> None: ...


def column(name: str) -> Any:
    """A field that is what the column of that name has."""
    at = COLUMNS.index(name)

    def read(lease: Row) -> Any:
        return lease.columns[at][lease.row]

    def write(lease: Row, value: Any) -> None:
        lease.columns[at][lease.row] = value

    return property(read, write)


def choice(name: str, values: tuple[Any, ...]) -> Any:
    """A field that is one of these values; the column has its number."""
    at = COLUMNS.index(name)

    def read(lease: Row) -> Any:
        return values[lease.columns[at][lease.row]]

    def write(lease: Row, value: int) -> None:
        lease.columns[at][lease.row] = value

    return property(read, write)


def link(name: str) -> Any:
    """A field that is another row, or none."""
    at = COLUMNS.index(name)

    def read(lease: Row) -> Row | None:
        row = lease.columns[at][lease.row]
        return type(lease)(lease.columns, row) if row else None

    def write(lease: Row, other: Row | None) -> None:
        lease.columns[at][lease.row] = other.row if other else 0

    return property(read, write)


def empty() -> tuple[Any, ...]:
    """Columns with a row 0, which stands for none."""
    return (*(array(code, [0]) for code in NUMBERS.values()), *([None] for _ in OBJECTS))
