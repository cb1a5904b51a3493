"""How answers are printed: a table for people, plain columns for pipes, JSON for programs."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Row: TypeAlias = Sequence[str]
_GAP = 2  # characters between columns
SHORT = 10.0  # seconds below which tenths are worth reading


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Prints a value, whose dataclasses become objects."""
    print(json.dumps(value, indent=indent, default=asdict), flush=True)


def print_table(columns: Mapping[str, Callable[[T], object]], items: Iterable[T], *, spare: Sequence[str] = ()) -> None:
    """Prints a line for each item; a column is a heading and what stands under it.

    On a terminal that is too narrow it leaves columns out, *spare* ones in this order: nothing is ever cut.
    """
    headings = list(columns)
    rows = [[_cell(column(item)) for column in columns.values()] for item in items]
    if not sys.stdout.isatty():
        _print_plain(headings, rows)
        return
    left_out = narrowed(headings, rows, spare, shutil.get_terminal_size().columns)
    kept = [index for index, heading in enumerate(headings) if heading not in left_out]
    _print_rich([headings[index] for index in kept], [[row[index] for index in kept] for row in rows])
    if left_out:
        print(f"not shown for want of width: {', '.join(left_out)}; --json has all", file=sys.stderr)


def narrowed(headings: Row, rows: Sequence[Row], spare: Sequence[str], width: int) -> Sequence[str]:
    """Says which of the *spare* columns must go, the first ones first, so that a line is no wider than that."""
    widths = dict(zip(headings, map(_widest, zip(headings, *rows, strict=True)), strict=True))
    for count in range(len(spare) + 1):
        kept = [widths[heading] for heading in headings if heading not in spare[:count]]
        if sum(kept) + _GAP * (len(kept) - 1) <= width:
            return spare[:count]
    return spare


def colored(environ: Mapping[str, str] = os.environ) -> bool:
    """Tells whether people see colours: on a terminal that has them, unless they want none."""
    return sys.stdout.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


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
    widths = [_widest(column) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _widest(column: Sequence[str]) -> int:
    return max(map(len, column))


def _print_rich(headings: Row, rows: Sequence[Row]) -> None:
    from rich.console import Console  # noqa: PLC0415 - only people need it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(*headings, box=None, header_style="bold", pad_edge=False)
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ignore"
    for row in rows:
        table.add_row(*map(Text, row))
    needed = sum(map(_widest, zip(headings, *rows, strict=True))) + _GAP * len(headings)
    Console(soft_wrap=True, width=max(needed, shutil.get_terminal_size().columns)).print(table, crop=False)
