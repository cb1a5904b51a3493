"""Processes under measurement: started on one core, awaited, and asked how much CPU they have used."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kvlease.local.process import Process

READY_WITHIN = 30.0
_SCHEDULED = 2  # Linux's CPUCLOCK_SCHED: all of its threads, in user and kernel


class NotReady(Exception):
    """A process did not say that it is ready; shows the end of its log."""


class Served:
    """A process that serves, and where."""

    def __init__(self, process: Process, pid: int, address: str) -> None:
        self.address = address
        self._process = process
        self._pid = pid

    def cpu(self) -> float:
        """Seconds of CPU that it and its subprocesses have used."""
        return sum(_cpu(pid) for pid in _group(self._pid))

    def memory(self) -> int:
        """Bytes of memory that it and its subprocesses hold themselves."""
        return sum(_resident(pid) for pid in _group(self._pid))


@contextmanager
def serving(
    name: str,
    command: Sequence[str],
    *,
    core: int | None = None,
    ready: str = r"ready \w+ (?:http://)?([\d.]+:\d+)",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """Serves until left. *ready* finds the address in the log. Raises NotReady."""
    prefix = [] if core is None else ["taskset", "-c", str(core)]
    given = None if environment is None else {**os.environ, **environment}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / f"{name}.log"
        process = Process(name, [*prefix, *command], log=log, grace=5.0, environment=given)
        pid = process.start()
        try:
            yield Served(process, pid, _address(process, re.compile(ready)))
        finally:
            process.stop()


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module here."""
    return [sys.executable, "-m", module, *arguments]


def cores() -> tuple[int | None, int | None]:
    """A core for what is measured, and one for what measures it; None, None on a machine with one."""
    there = sorted(os.sched_getaffinity(0))
    return (there[0], there[1]) if len(there) > 1 else (None, None)


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Runs this process on one core until left."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def output(command: Sequence[str], *, timeout: float) -> str:
    """What a command says."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout).stdout


def _address(process: Process, ready: re.Pattern[str]) -> str:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and process.running:
        if found := ready.search(process.log.read_text(errors="replace")):
            return found[found.re.groups]
        time.sleep(0.02)
    raise NotReady(f"{process.name} is not ready\n{process.tail()}")


def _group(group: int) -> list[int]:
    """The processes that run in a group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if os.getpgid(int(entry.name)) == group:
                    found.append(int(entry.name))
            except ProcessLookupError:
                continue
    return found


def _cpu(pid: int) -> float:
    """Reads the clock that Linux keeps of a process, to the nanosecond: /proc tells hundredths of a second."""
    return time.clock_gettime((~pid << 3) | _SCHEDULED)


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
