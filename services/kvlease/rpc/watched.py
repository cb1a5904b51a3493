"""Files that may be replaced while a service runs: certificates, keys."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import structlog

T = TypeVar("T")
Stamp: TypeAlias = tuple[tuple[int, int, int], ...]

log = structlog.get_logger()


class Watched(Generic[T]):
    """What files say. They are looked at when asked, at most once per pause, and read again when they have changed."""

    def __init__(
        self,
        files: Sequence[Path],
        read: Callable[[], T],
        *,
        pause: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads for the first time. Raises what *read* raises, and OSError for a file that is not there."""
        self._files = files
        self._read = read
        self._pause = pause
        self._clock = clock
        self._stamp: Stamp | str = self._look()
        self._value = read()
        self._next_look = clock() + pause

    def get(self) -> T:
        """Returns what the files say; what they said before, while they say nothing that makes sense."""
        now = self._clock()
        if now >= self._next_look:
            self._next_look = now + self._pause
            self._refresh()
        return self._value

    def _refresh(self) -> None:
        stamp: Stamp | str
        try:
            stamp = self._look()
        except OSError as error:
            stamp = str(error)
        if stamp == self._stamp:
            return
        self._stamp = stamp  # what is wrong now is not read again until it changes: certificate first, then key
        try:
            self._value = self._read()
        except (OSError, ValueError) as error:
            log.error("changed files not taken", files=self._names(), error=str(error))  # noqa: TRY400 - it says it all
        else:
            log.info("changed files taken", files=self._names())

    def _look(self) -> Stamp:
        told = [file.stat() for file in self._files]
        return tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in told)

    def _names(self) -> list[str]:
        return [str(file) for file in self._files]
