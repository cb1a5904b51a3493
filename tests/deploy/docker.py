"""A Docker daemon for the tests: the one that runs, or one of their own that ends with them."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from kvlease.local.model import default_cache

_STARTED_WITHIN = 30.0  # seconds


class Unavailable(Exception):
    """There is no Docker, or something that it needs; the message says what."""


class Docker:
    """The command `docker` with a daemon that answers."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment

    def __call__(self, *arguments: str, within: float = 60.0, stdin: bytes | None = None) -> str:
        """Runs `docker ...` and gives what it prints."""
        return run("docker", *arguments, environment=self.environment, within=within, stdin=stdin)

    def has_image(self, name: str) -> bool:
        return bool(self("images", "--quiet", name))


def run(
    *command: str,
    environment: dict[str, str] | None = None,
    within: float,
    folder: Path | None = None,
    stdin: bytes | None = None,
) -> str:
    """Runs a command and gives what it prints.

    Raises:
        AssertionError: it failed; with what it said.
    """
    ended = subprocess.run(
        command, env=environment, cwd=folder, input=stdin or b"", capture_output=True, timeout=within, check=False
    )
    said = ended.stdout.decode(errors="replace")
    assert ended.returncode == 0, (
        f"{' '.join(command)}\n{said[-4000:]}\n{ended.stderr.decode(errors='replace')[-4000:]}"
    )
    return said


@contextmanager
def docker() -> Iterator[Docker]:
    """A daemon.

    Raises:
        Unavailable: none runs and none can be started.
    """
    if shutil.which("docker") is None:
        raise Unavailable("the command docker is missing")
    there = Docker(dict(os.environ))
    if _answers(there):
        yield there
        return
    with _daemon() as started:
        yield started


@contextmanager
def _daemon() -> Iterator[Docker]:
    program = shutil.which("dockerd")
    if program is None or os.getuid() != 0:
        raise Unavailable("no Docker daemon answers, and only root can start one")
    folder = Path(mkdtemp(prefix="kvlease-docker-"))
    socket = f"unix://{folder}/docker.sock"
    places = ["--host", socket, "--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")]
    data = ["--data-root", str(default_cache() / "docker")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, *places, *data], stdout=log, stderr=log)
    try:
        started = Docker(os.environ | {"DOCKER_HOST": socket})
        deadline = time.monotonic() + _STARTED_WITHIN
        while not _answers(started):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"dockerd did not start: {(folder / 'log').read_text()[-1000:]}")
            time.sleep(0.2)
        yield started
        started("image", "prune", "--force")  # what building left behind
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(candidate: Docker) -> bool:
    try:
        candidate("version", within=20.0)
    except (AssertionError, subprocess.TimeoutExpired):
        return False
    return True
