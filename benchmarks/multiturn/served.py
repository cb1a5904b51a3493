"""Which stacks are being served on this machine: one file each, for as long as it is."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.multiturn.stacks import Stack

FOLDER = Path(".cache/multiturn/served")
_GONE_WITHIN = 60.0  # seconds
_POLL = 0.1  # seconds


@contextmanager
def announced(stack: Stack, folder: Path) -> Iterator[None]:
    """Says that this process serves a stack."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{stack.name}.json"
    process = folder / f"{stack.name}.pid"
    process.write_text(str(os.getpid()))
    stack.save(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        process.unlink(missing_ok=True)


def stacks(folder: Path) -> list[Stack]:
    """All that are being served."""
    return [Stack.load(file) for file in sorted(folder.glob("*.json"))]


def end(folder: Path, *, say: Callable[[str], None]) -> bool:
    """Ends whoever serves; False: one of them did not end in time."""
    deadline = time.monotonic() + _GONE_WITHIN
    ended = True
    for file in sorted(folder.glob("*.pid")):
        process = int(file.read_text())
        try:
            os.kill(process, signal.SIGTERM)
        except ProcessLookupError:
            file.unlink(missing_ok=True)
            file.with_suffix(".json").unlink(missing_ok=True)
        while file.exists() and time.monotonic() < deadline:
            time.sleep(_POLL)
        ended = ended and not file.exists()
        say(f"{file.stem} {'ended' if ended else 'still runs'}")
    return ended
