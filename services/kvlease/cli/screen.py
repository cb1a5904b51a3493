"""One frame of `kvlease top`, for a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from kvlease.cli.engines import state
from kvlease.cli.output import length, narrowed, printable
from kvlease.cli.traffic import Traffic
from kvlease.cli.verdict import REASONS
from kvlease.client.types import Engine

_BAR = 24  # characters
_MOST_MISSES = 6


_POOL = "POOL  # requests  = leased  . free"
_WORDS = ("ENGINE", "ROLE", "STATE")
_STYLES = {"draining": "yellow", "healthy": "green", "lost": "red"}


def pool(engine: Engine) -> str:
    """Draws an engine's blocks as a bar."""
    total = max(1, engine.total_blocks)
    leased = round(_BAR * min(engine.leased_blocks, total) / total)
    free = round(_BAR * min(engine.load.free_blocks, total) / total)
    leased = min(leased, _BAR - free)
    return "#" * (_BAR - leased - free) + "=" * leased + "." * free


COLUMNS: dict[str, Callable[[Engine], str]] = {
    "ENGINE": lambda engine: printable(engine.ref.engine_id),
    "ROLE": lambda engine: engine.role.value,
    "STATE": state,
    "RUN": lambda engine: str(engine.load.running),
    "WAIT": lambda engine: str(engine.load.waiting),
    _POOL: pool,
    "FREE": lambda engine: f"{engine.load.free_blocks}/{engine.total_blocks}",
    "LEASES": lambda engine: str(engine.leases),
    "LEASED": lambda engine: str(engine.leased_blocks),
    "CLAIMED": lambda engine: str(engine.claimed_blocks),
    "BUDGET": lambda engine: str(engine.retention_budget_blocks),
    "SILENT": lambda engine: length(engine.silent),
}
SPARE = ("SILENT", "CLAIMED", _POOL, "ROLE", "WAIT", "LEASES")
"""What a narrow terminal does without, the first ones first."""


@dataclass(frozen=True, slots=True)
class Glance:
    """What is shown, and what kept the rest from being seen. Without a gateway's figures *traffic* is the router's."""

    engines: Sequence[Engine] = ()
    traffic: Traffic | None = None
    engines_error: str = ""
    traffic_error: str = ""


def frame(glance: Glance, *, title: str, width: int) -> RenderableType:
    """Draws it, so many characters wide: columns are left out rather than cut."""
    parts: list[RenderableType] = [Text(title, style="bold")]
    parts += [_error(glance.traffic_error)] if glance.traffic_error else []
    parts += _traffic(glance.traffic) if glance.traffic else []
    parts += [Text(), _error(glance.engines_error) if glance.engines_error else _engines(glance.engines, width)]
    if glance.traffic is not None and glance.traffic.misses:
        parts += [Text(), _misses(glance.traffic)]
    return Group(*parts)


def _traffic(traffic: Traffic) -> list[RenderableType]:
    rate = traffic.requests / traffic.seconds if traffic.seconds else 0.0
    when = f"last {length(traffic.seconds)}" if traffic.seconds else "since the gateway's start"
    shares = ", ".join(f"{name} {_share(traffic, name)}" for name in ("reused", "local", "computed"))
    return [
        Text(f"requests  {traffic.requests:.0f} ({rate:.1f}/s), {traffic.in_flight:.0f} in flight  ({when})"),
        Text(
            f"TTFT      of streams: median {_milliseconds(traffic.ttft_median)}, p95 {_milliseconds(traffic.ttft_p95)}"
        ),
        Text(f"prompts   {_percent(traffic.reuse)} not computed: {shares} tokens"),
    ]


def _engines(engines: Sequence[Engine], width: int) -> RenderableType:
    rows = [[column(engine) for column in COLUMNS.values()] for engine in engines]
    left_out = narrowed(list(COLUMNS), rows, SPARE, width)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in COLUMNS:
        if heading not in left_out:
            justify: JustifyMethod = "left" if heading in (*_WORDS, _POOL) else "right"
            table.add_column(heading, justify=justify, no_wrap=True, overflow="ignore")
    for row in rows:
        cells = [(heading, cell) for heading, cell in zip(COLUMNS, row, strict=True) if heading not in left_out]
        table.add_row(*(Text(cell, style=_STYLES[cell] if heading == "STATE" else "") for heading, cell in cells))
    return table


def _misses(traffic: Traffic) -> RenderableType:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("MISSES", justify="right")
    table.add_column("REASON")
    table.add_column("WHY")
    for reason, count in sorted(traffic.misses.items(), key=lambda item: -item[1])[:_MOST_MISSES]:
        table.add_row(f"{count:.0f}", Text(printable(reason)), REASONS.get(reason, ("", ""))[0])
    return table


def _error(error: str) -> Text:
    return Text(error, style="red")


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.0f} ms"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _share(traffic: Traffic, source: str) -> str:
    return f"{traffic.tokens.get(source, 0.0):.0f}"
