"""One engine's process: started, waited for, stopped, killed, and started again on the same ports."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from kvlease.local import launch as launching
from kvlease.local import leash, page
from kvlease.local.launch import Launch

_GRACE = 15.0  # seconds that an engine has to end by itself
_TAIL = 30  # lines of the log that a failure shows


class EngineFailed(Exception):
    """An engine ended by itself, or was not ready in time; the message ends with the tail of its log."""


class Engine:
    """A vLLM server and all its subprocesses, which live no longer than this process."""

    def __init__(self, launch: Launch, *, logs: Path) -> None:
        self.launch = launch
        self.log = logs / f"{launch.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.launch.name

    @property
    def url(self) -> str:
        return self.launch.url

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the process, and does not wait for it; a log of an earlier start is appended to."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, leash.__file__, str(_GRACE), *launching.command(self.launch)],
                env=launching.environment(self.launch),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def ready(self) -> bool:
        """Whether the engine is healthy yet.

        Raises:
            EngineFailed: it has ended.
        """
        if not self.running:
            raise EngineFailed(f"{self.name} ended; {self.tail()}")
        return page.answers(f"{self.url}/health")

    def tell_to_stop(self) -> None:
        """Asks for the end (SIGTERM) and does not wait for it."""
        if self._process and self._process.stdin:
            self._signal(signal.SIGCONT)
            self._process.stdin.close()

    def stop(self) -> None:
        """Ends the engine with all its subprocesses, by force after 15 s."""
        self.tell_to_stop()
        self._reap()

    def kill(self) -> None:
        """Kills the engine with all its subprocesses at once, as a crash would."""
        self._signal(signal.SIGKILL)
        self._reap()

    def pause(self) -> None:
        """Freezes every process of the engine (SIGSTOP) until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.running and self._process:
            os.killpg(self._process.pid, number)

    def _reap(self) -> None:
        if self._process:
            self._process.wait()
            if self._process.stdin:
                self._process.stdin.close()
            self._process = None

    def tail(self) -> str:
        """The last lines of its log, under a heading."""
        lines = self.log.read_text(errors="replace").splitlines()[-_TAIL:]
        return "\n".join([f"the end of {self.log}:", *lines])
