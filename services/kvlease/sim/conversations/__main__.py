"""Runs conversations against a gateway: `python -m kvlease.sim.conversations URL`; says how they went, and why."""

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TextIO

from kvlease.client.lengths import written
from kvlease.rpc.options import length
from kvlease.sim.conversations.driver import Driver
from kvlease.sim.conversations.plan import Plan
from kvlease.sim.conversations.record import Record, summary
from kvlease.sim.conversations.told import told

_TIMES = ("think", "ramp", "duration", "patience")
_BAD = ("wrong", "hung", "failed")


def main() -> int:
    """Prints the figures. Returns 1 if a turn was wrong, hung, or failed with 500 or more."""
    given = _parser().parse_args()
    values: dict[str, Any] = {field.name: getattr(given, field.name) for field in fields(Plan)}
    plan = Plan(**values)
    records: list[Record] = []
    with contextlib.ExitStack() as files:
        out = files.enter_context(given.out.open("w")) if given.out else None
        asyncio.run(Driver(plan, given.url, model=given.model, tell=teller(records, out)).run())
    figures = summary(records)
    lines = [json.dumps(figures)] if given.json else told(figures)
    print(*lines, sep="\n")  # noqa: T201 - for whoever runs it
    return int(any(figures[name] for name in _BAD))


def teller(records: list[Record], lines: TextIO | None) -> Callable[[Record], None]:
    """Returns what keeps each turn, and writes it as a line of JSON."""

    def tell(record: Record) -> None:
        records.append(record)
        if lines is not None:
            lines.write(json.dumps(asdict(record)) + "\n")

    return tell


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kvlease.sim.conversations",
        description=f"Holds conversations with simulated engines. {Plan.__doc__}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", help="of the gateway")
    parser.add_argument("--model", default="sim")
    parser.add_argument("--out", type=Path, metavar="FILE", help="a line of JSON per turn")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    for field in fields(Plan):
        flag, default = f"--{field.name}", field.default
        if isinstance(default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=default)
        elif isinstance(default, tuple):
            parser.add_argument(flag, type=int, nargs=2, default=default, metavar=("LEAST", "MOST"))
        elif field.name in _TIMES:
            parser.add_argument(
                flag, type=length, default=written(default) if isinstance(default, float) else None, metavar="TIME"
            )
        else:
            kind = int if isinstance(default, int) else float
            parser.add_argument(flag, type=kind, default=default, metavar="N")
    return parser


if __name__ == "__main__":
    sys.exit(main())
