"""The images, where none can be pulled: one base made of Debian's packages, and ours over it, from wheels made here."""

import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

from tests.deploy.docker import Docker, Unavailable, run

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / ".cache" / "wheels"
SUITE = "bookworm"
PACKAGES = ("python3", "python3-venv", "redis-server", "haproxy", "prometheus")
BASE = f"kvlease-test-base:{sha256(' '.join((SUITE, *PACKAGES)).encode()).hexdigest()[:12]}"
OURS = "kvlease-test"


def ensure(docker: Docker) -> None:
    """Makes both.

    Raises:
        Unavailable: what they are made of cannot be had.
        AssertionError: the Dockerfile does not build.
    """
    if not docker.has_image(BASE):
        _base(docker)
    _check(docker)
    _wheels()
    arguments = [f"BASE={BASE}", "PIP_NO_INDEX=1"]
    given = [word for argument in arguments for word in ("--build-arg", argument)]
    docker("build", "--quiet", "--file", "services/Dockerfile", "--tag", OURS, *given, str(ROOT), within=400.0)


def _check(docker: Docker) -> None:
    """Runs a container as the stack runs them: in a network of its own, with a port of this host."""
    network = f"kvlease-test-{token_hex(4)}"
    try:
        docker("network", "create", network)
        docker("run", "--rm", "--network", network, "--publish", "127.0.0.1::80", BASE, "true")
        docker("network", "rm", network)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"no container can be run: {error}") from None


def _base(docker: Docker) -> None:
    if shutil.which("debootstrap") is None:
        raise Unavailable("debootstrap is missing, and no image is pulled here")
    with TemporaryDirectory(prefix="kvlease-base-") as folder:
        try:
            packages = f"--include={','.join(PACKAGES)}"
            run("debootstrap", "--variant=minbase", packages, SUITE, folder, within=400.0)
            _import(docker, folder)
        except (AssertionError, subprocess.SubprocessError) as error:
            raise Unavailable(f"no base image: {error}") from None


def _import(docker: Docker, folder: str) -> None:
    dropped = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale")
    excluded = [f"--exclude=./{name}/*" for name in dropped]
    with subprocess.Popen(["tar", "-C", folder, *excluded, "-c", "."], stdout=subprocess.PIPE) as packing:
        importing = ["docker", "import", "-", BASE]
        subprocess.run(
            importing, env=docker.environment, stdin=packing.stdout, capture_output=True, timeout=200.0, check=True
        )


def _wheels() -> None:
    """All that the image installs, for the base's Python: that of Debian, which may be older than ours by a bit."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    [ours] = re.findall(r"pip install '(.+)'", (ROOT / "services/Dockerfile").read_text())
    wanted = [ours, "hatchling>=1.27", "async-timeout>=4.0.3"]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(WHEELS), *wanted]
    try:
        run(*command, environment=dict(os.environ), within=300.0, folder=ROOT)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"no wheels: {error}") from None
