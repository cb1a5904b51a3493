"""How answers are printed: a table for people, plain columns for pipes, JSON for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Row: TypeAlias = Sequence[str]
SHORT = 10.0  # seconds below which tenths are worth reading


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Prints a value, whose dataclasses become objects."""
    print(json.dumps(value, indent=indent, default=asdict), flush=True)


def print_table(columns: Mapping[str, Callable[[T], object]], items: Iterable[T]) -> None:
    """Prints a line for each item; a column is a heading and what stands under it."""
    headings = list(columns)
    rows = [[_cell(column(item)) for column in columns.values()] for item in items]
    if sys.stdout.isatty():
        _print_rich(headings, rows)
    else:
        _print_plain(headings, rows)


def length(seconds: float) -> str:
    """Writes a duration for people: 1.2s, 45s, 3m20s, 2h05m."""
    if seconds < SHORT:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest}s"
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours}h{minutes_left:02}m" if hours else f"{minutes}m{rest:02}s"


def printable(text: str) -> str:
    """Escapes what would move a terminal's cursor: names come from anywhere."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _cell(value: object) -> str:
    return "-" if value in (None, "") else printable(str(value))


def _print_plain(headings: Row, rows: Sequence[Row]) -> None:
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_rich(headings: Row, rows: Sequence[Row]) -> None:
    from rich.console import Console  # noqa: PLC0415 - only people need it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(*headings, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
