"""Plots, all drawn alike. matplotlib is only needed here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS


def draw(bench: str, paint: Callable[[Any], None], *, folder: Path = RESULTS, panels: int = 1) -> Path:
    """Writes *bench*.svg: *paint* gets the axes, one or a row of several."""
    import matplotlib as mpl  # noqa: PLC0415 - a second, and only where a plot is wanted

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of backend

    with plt.rc_context({"svg.hashsalt": bench, "axes.grid": True, "grid.alpha": 0.3, "font.size": 9}):
        figure, axes = plt.subplots(1, panels, figsize=(6.4 * panels, 4), layout="constrained")
        paint(axes)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{bench}.svg"
        figure.savefig(file, metadata={"Date": None})
        plt.close(figure)
    return file
