"""The two pictures of a run: TTFT against prompt length, and prefill split into computing and reading KV."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.multiturn.results import Turn
from benchmarks.multiturn.stacks import KVLEASE, STOCK
from benchmarks.multiturn.summary import Key, Point, lengths, points
from benchmarks.multiturn.sweep import RECOMPUTE

_COLOURS = {RECOMPUTE: "#7f7f7f", STOCK: "#d95f02", KVLEASE: "#1b9e77"}
_OTHER = "#7570b3"
_FORMATS = ("svg", "png")


def draw(turns: Sequence[Turn], folder: Path, *, title: str) -> list[Path]:
    """Writes `ttft` and `prefill`, each as SVG and PNG; gives the files."""
    import matplotlib as mpl  # noqa: PLC0415 - nothing else needs it

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "kvlease"  # the same data give the same file
    import matplotlib.pyplot as plt  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    found = points(turns)
    files = []
    for name, paint in (("ttft", _ttft), ("prefill", _prefill)):
        figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
        paint(axes, found)
        axes.set_title(title)
        axes.set_xlabel("prompt tokens")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        for suffix in _FORMATS:
            files.append(folder / f"{name}.{suffix}")
            figure.savefig(files[-1], dpi=150, metadata={"Date": None} if suffix == "svg" else None)
        plt.close(figure)
    return files


def _ttft(axes: Any, found: Mapping[Key, Point]) -> None:
    """Lines through the medians, from the lowest to the highest shaded."""
    for stack, leg in _series(found):
        mine = {length: found[stack, leg, length] for length in lengths(found) if (stack, leg, length) in found}
        at, medians = list(mine), [point.ttft for point in mine.values()]
        low, high = [point.lowest for point in mine.values()], [point.highest for point in mine.values()]
        colour, dashes = _COLOURS.get(leg, _OTHER), "--" if _is_control(stack, leg) else "-"
        axes.plot(at, medians, dashes, marker="o", color=colour, label=_label(stack, leg))
        axes.fill_between(at, low, high, color=colour, alpha=0.15)
    axes.set_ylabel("time to first token, ms")
    axes.set_ylim(bottom=0)


def _prefill(axes: Any, found: Mapping[Key, Point]) -> None:
    """Bars of the medians, side by side."""
    series, at = _series(found), lengths(found)
    width = 0.8 / len(series)
    for place, (stack, leg) in enumerate(series):
        mine = {number: found[stack, leg, length] for number, length in enumerate(at) if (stack, leg, length) in found}
        where = [number + (place - (len(series) - 1) / 2) * width for number in mine]
        computing = [max(0.0, point.prefill - point.reading) for point in mine.values()]
        reading = [point.reading for point in mine.values()]
        look = {"color": _COLOURS.get(leg, _OTHER), "hatch": "//" if _is_control(stack, leg) else None}
        label = _label(stack, leg)
        axes.bar(where, computing, width * 0.92, edgecolor="white", label=f"{label}: computing", **look)
        if any(reading):
            axes.bar(where, reading, width * 0.92, bottom=computing, alpha=0.45, label=f"{label}: reading KV", **look)
    axes.set_xticks(range(len(at)), [str(length) for length in at])
    axes.set_ylabel("prefill, ms")


def _series(found: Mapping[Key, Point]) -> list[tuple[str, str]]:
    """Stacks and legs, what is computed anew first."""
    return sorted({(stack, leg) for stack, leg, _ in found}, key=lambda pair: (pair[1] != RECOMPUTE, pair[0] != STOCK))


def _is_control(stack: str, leg: str) -> bool:
    """Whether it repeats, on kvlease's engines, what stock's show too."""
    return leg == RECOMPUTE and stack != STOCK


def _label(stack: str, leg: str) -> str:
    return leg if leg == stack else f"{leg}, {stack}'s engines"
