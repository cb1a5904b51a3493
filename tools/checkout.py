"""The checkout's folders, and steps that are done once."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
ENGINES = ROOT / ".engines"
LOG = ROOT / ".cache" / "setup.log"

_TAIL = 15  # lines of the log that a failure shows
_CAUSES = {  # what pip says, and what it means
    "No space left on device": "the disk is full",
    "name resolution|NewConnectionError|unreachable|Read timed out|No route to host|from versions: none": (
        "pip cannot reach its package index: check the network, or pip's own settings"
    ),
    "ensurepip is not available|No module named ensurepip": (
        "this Python cannot make virtual environments (on Debian: apt-get install python3-venv)"
    ),
    "No matching distribution found for torch|Cannot install torch": (
        "pip finds no CPU build of torch for this Python: take another one (PYTHON=python3.11 make setup),"
        " or show pip where the builds are (PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS)"
    ),
}


class SetupError(Exception):
    """A step failed; the message says why and what to do."""


def once(title: str, marker: Path, inputs: Iterable[str], act: Callable[[], None]) -> None:
    """Does a step unless the marker says that it was done with the same inputs."""
    made_of = hashlib.sha256("\n".join(inputs).encode()).hexdigest()
    if marker.is_file() and marker.read_text() == made_of:
        return
    begun = time.monotonic()
    print(f"setup: {title} ...", flush=True)
    act()
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(made_of)
    print(f"setup: {title}: done in {time.monotonic() - begun:.0f} s", flush=True)


def environment(folder: Path) -> None:
    """Makes a virtual environment with a pip that knows dependency groups, unless a working one is there."""
    made_with = _version(folder)
    if not made_with:
        shutil.rmtree(folder, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(folder)])
    elif made_with != (mine := "{}.{}".format(*sys.version_info)):
        print(f"setup: {folder.name} stays one of Python {made_with}; delete it to get one of {mine}", flush=True)
    pip(folder, "--upgrade", "pip>=25.1")


def pip(folder: Path, *arguments: str, command: str = "install") -> None:
    """Calls the environment's pip."""
    run([str(folder / "bin" / "python"), "-m", "pip", command, "--no-input", "--progress-bar=off", *arguments])


def need_space(gigabytes: int) -> None:
    free = shutil.disk_usage(ROOT).free // 10**9
    if free < gigabytes:
        raise SetupError(f"{gigabytes} GB of disk are needed at {ROOT}, and {free} GB are free")


def run(command: Sequence[str]) -> None:
    """Runs a command, what it says going to the log.

    Raises:
        SetupError: it failed; with the cause as far as it is known, and the end of what it said.
    """
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a+") as log:
        begin = log.tell()
        print("$", *command, file=log, flush=True)
        ended = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        if ended.returncode:
            log.seek(begin)
            raise SetupError(_explain(log.read()))


def _explain(said: str) -> str:
    causes = [cause for pattern, cause in _CAUSES.items() if re.search(pattern, said)]
    return "\n".join(
        [*(causes or ["a command failed"]), f"{os.path.relpath(LOG)} ends with:", *said.splitlines()[-_TAIL:]]
    )


def _version(folder: Path) -> str:
    """The Python of an environment; empty if it is not whole: half made, moved, or its Python gone."""
    asked = [str(folder / "bin" / "python"), "-c", "import pip, sys; print(sys.prefix, *sys.version_info[:2])"]
    try:
        prefix, *version = subprocess.check_output(asked, text=True, stderr=subprocess.DEVNULL).rsplit(maxsplit=2)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return ".".join(version) if Path(prefix) == folder else ""
