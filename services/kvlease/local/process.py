"""A process on a leash: it lives no longer than this one, nor do its subprocesses, however this one ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kvlease.local import leash

_DYING_POLL, _DYING_POLLS = 0.02, 500  # seconds, and how often: for as long as nobody buries a zombie
_TAIL = 30  # lines of the log that a failure shows


class Process:
    """Started, stopped, killed, frozen, and started again, always with all its subprocesses; it writes to a log."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        grace: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Starts nothing yet. `grace`: seconds to end by itself when told to."""
        self.name = name
        self.log = log
        self.command = tuple(command)
        self._grace = grace
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> int:
        """Starts the process, and does not wait for it; a log of an earlier start is appended to.

        Returns:
            The id of its process group.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, leash.__file__, str(self._grace), *self.command],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self._process.pid

    def tell_to_stop(self) -> None:
        """Asks for the end (SIGTERM) and does not wait for it."""
        if self._process and self._process.stdin:
            self.resume()
            self._process.stdin.close()

    def stop(self) -> None:
        """Ends it, by force once its grace is over."""
        self.tell_to_stop()
        self._reap()

    def kill(self) -> None:
        """Kills it at once, as a crash would."""
        self._signal(signal.SIGKILL)
        self._reap()

    def pause(self) -> None:
        """Freezes it (SIGSTOP) until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def tail(self) -> str:
        """The last lines of its log, under a heading."""
        lines = self.log.read_text(errors="replace").splitlines()[-_TAIL:]
        return "\n".join([f"the end of {self.log}:", *lines])

    def _signal(self, number: signal.Signals) -> None:
        if self.running and self._process:
            os.killpg(self._process.pid, number)

    def _reap(self) -> None:
        if self._process:
            self._process.wait()
            if self._process.stdin:
                self._process.stdin.close()
            _wait_for_the_dying(self._process.pid)
            self._process = None


def _wait_for_the_dying(group: int) -> None:
    """Waits until all killed processes of a group have given back their ports and memory, which takes a moment."""
    with suppress(ProcessLookupError):
        for _ in range(_DYING_POLLS):
            os.killpg(group, 0)
            time.sleep(_DYING_POLL)
