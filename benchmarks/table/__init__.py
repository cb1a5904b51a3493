"""A registry's table with a million leases: memory, claims, heartbeats, and many ends at one moment."""

import json
from typing import Any

from benchmarks.catalogue import Options
from benchmarks.figure import Figure
from benchmarks.picture import draw
from benchmarks.pinned import output, python
from benchmarks.report import Report
from benchmarks.sample import Sample

SUMMARY = "a million live leases in one registry"
SIZES = (1_000, 100_000, 1_000_000)
COLUMNS = (
    "bytes a lease",
    "claim p50, us",
    "claim p99, us",
    "heartbeat with 10 leases, us",
    "heartbeat with 10,000, us",
    "longest pause while 10,000 expire, ms",
)


def run(options: Options) -> Report:
    """Measures each size in a process of its own; the small ones several times."""
    sizes = SIZES[:1] if options.smoke else SIZES
    seen = {
        size: [_measured(size) for _ in range(3 if size == SIZES[0] and not options.smoke else 1)] for size in sizes
    }
    medians = {size: {name: Sample([x[name] for x in seen[size]]).median for name in COLUMNS} for size in sizes}
    draw("table", lambda axes: _paint(axes, medians), folder=options.results)
    return Report(
        bench="table",
        columns=["leases", *COLUMNS],
        rows=[[size, *(medians[size][name] for name in COLUMNS)] for size in sizes],
        figures=_figures(medians),
        facts={"seen": seen},
        notes=(
            "The store's own time, no transport. Bytes beside the handle's body and digests, by the process's memory.",
            "Each lease has a conversation of its own, 200 engines hold them. Expiry: the longest of another engine's",
            "heartbeats that come one after the other meanwhile.",
        ),
    )


def _measured(size: int) -> dict[str, float]:
    told: dict[str, float] = json.loads(output(python("benchmarks.table.worker", str(size)), timeout=400))
    return told


def _figures(medians: dict[int, dict[str, float]]) -> list[Figure]:
    few, many = medians[min(medians)], medians[max(medians)]
    most = f"{max(medians):,} leases"
    beats = many["heartbeat with 10,000, us"] / many["heartbeat with 10 leases, us"]
    return [
        Figure(text=f"memory per lease, {most}", value=many["bytes a lease"], at_most=400, unit="B"),
        Figure(
            text=f"claim p99, of that with {min(medians):,}",
            value=many["claim p99, us"] / few["claim p99, us"],
            at_most=2,
        ),
        Figure(
            text=f"longest pause while 10,000 expire, {most}",
            value=many["longest pause while 10,000 expire, ms"],
            at_most=20,
            unit="ms",
        ),
        Figure(text="heartbeat with 10,000 leases, of that with 10", value=beats, at_most=1.2),
    ]


def _paint(axes: Any, medians: dict[int, dict[str, float]]) -> None:
    for name in COLUMNS[1:5]:
        axes.plot(list(medians), [medians[size][name] for size in medians], marker="o", label=name)
    axes.set(xscale="log", xlabel="leases", ylabel="µs", ylim=(0, None), title="The table's calls")
    axes.legend()
