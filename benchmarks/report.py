"""What a benchmark found: a table to read, a JSON file to compare, lines that say what was reached."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, number
from benchmarks.multiturn.results import conditions

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of one benchmark."""

    bench: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    figures: Sequence[Figure] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else belongs into the file: settings, every round's values."""
    notes: Sequence[str] = ()
    """What a reader of the table has to know."""

    def table(self) -> str:
        """The table in Markdown, aligned."""
        cells = [list(self.columns), *([number(cell) for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join([*lines, *self.notes])

    def lines(self) -> list[str]:
        """One line per figure."""
        return [figure.line(self.bench) for figure in self.figures]

    def write(self, folder: Path = RESULTS) -> Path:
        """Writes the JSON file. Paths of this machine do not get into it."""
        figures = [{**asdict(figure), "goal": figure.goal, "ok": figure.ok} for figure in self.figures]
        content = {
            "bench": self.bench,
            **{name: value for name, value in conditions().items() if name != "command"},  # it names folders
            "columns": self.columns,
            "rows": self.rows,
            "notes": self.notes,
            "figures": figures,
            "facts": self.facts,
        }
        text = json.dumps(_finite(content), indent=1)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.bench}.json"
        file.write_text(text.replace(str(ROOT), ".").replace(str(Path.home()), "~") + "\n")
        return file


def _finite(value: Any) -> Any:
    """JSON knows no NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
