"""A bar for what takes long, on the terminal of people; nothing anywhere else."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """So many of so many, with the time that it has taken. Shown while it is open, and gone afterwards."""

    def __init__(self, title: str) -> None:
        """Shows nothing yet."""
        self._title = title
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._total = 0

    def expect(self, more: int = 1) -> None:
        """Counts what is to come."""
        self._total += more
        if self._progress is None and sys.stderr.isatty():
            self._open()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=self._total)

    def advance(self) -> None:
        """Counts one that has come."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task)

    def close(self) -> None:
        """Takes the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _open(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only people need it
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(self._title, total=self._total)
        self._progress.start()
