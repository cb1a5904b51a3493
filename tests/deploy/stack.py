"""The stack of docker-compose.yml while it runs, and what a test does to it."""

import http.client
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.deploy.docker import Docker, Unavailable, run
from tests.deploy.images import BASE, OURS, ROOT
from tests.deploy.talk import reuses

PROJECT = "kvlease-test"
PORTS = ("gateway", "registry", "router", "prometheus")


class Stack:
    """What runs."""

    def __init__(self, docker: Docker, compose: tuple[str, ...]) -> None:
        self.docker = docker
        self._compose = compose

    def compose(self, *arguments: str, within: float = 120.0) -> str:
        """Runs `docker-compose ...`."""
        return run(*self.command, *arguments, environment=self.environment, within=within, folder=ROOT)

    @property
    def command(self) -> list[str]:
        """`docker-compose`, for this stack."""
        files = ("docker-compose.yml", "tests/deploy/docker-compose.override.yml")
        given = [word for name in files for word in ("--file", str(ROOT / name))]
        return [*self._compose, *given, "--project-name", PROJECT]

    @property
    def environment(self) -> dict[str, str]:
        """What it needs to be told besides."""
        ports = {f"KVLEASE_{name.upper()}_PORT": "0" for name in PORTS}
        told = {"KVLEASE_IMAGE": OURS, "KVLEASE_TEST_BASE": BASE, "KVLEASE_WAIT": "5s", "COMPOSE_PROFILES": "sim"}
        return self.docker.environment | ports | told

    def up(self, *arguments: str) -> None:
        """Starts what does not run."""
        self.compose("up", "--detach", "--no-build", *arguments)

    def running(self, service: str = "") -> list[str]:
        """Ids of the containers that run, of one service or of all."""
        found = self.compose("ps", "--quiet", *filter(None, [service])).split()
        return [x for x in found if self.inspect(x, "{{.State.Running}}") == "true"]

    def inspect(self, container: str, what: str) -> str:
        return self.docker("inspect", "--format", what, container).strip()

    def address(self, container: str) -> str:
        """A container's address."""
        return self.inspect(container, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")

    @contextmanager
    def squatters(self, number: int) -> Iterator[None]:
        """Containers that take the addresses which others have just left."""
        command = ["run", "--detach", "--rm", "--network", f"{PROJECT}_default", BASE, "sleep", "600"]
        taken = [self.docker(*command).strip() for _ in range(number)]
        try:
            yield
        finally:
            self.docker("kill", *taken)

    def published(self, service: str, port: int) -> int:
        """Where a port of a service is found on this host."""
        return int(self.compose("port", service, str(port)).strip().rpartition(":")[2])

    @property
    def balancer(self) -> tuple[str, int]:
        """Where clients find it."""
        return "127.0.0.1", self.published("balancer", 8440)

    def reuses(self) -> bool:
        """Whether a conversation's second turn reuses its first."""
        return reuses(*self.balancer)

    def engines(self) -> list[dict[str, Any]]:
        """What the command `kvlease engines` in a container of the stack says."""
        command = ["exec", "-T", "router", "kvlease", "engines", "--registry", "registry:7440", "--json"]
        said: list[dict[str, Any]] = json.loads(self.compose(*command))
        return said


@contextmanager
def running(docker: Docker, logs: Path) -> Iterator[Stack]:
    """Runs it on free ports; leaves its logs behind, and nothing else."""
    stack = Stack(docker, _compose(docker))
    stack.compose("config", "--quiet")
    try:
        stack.compose("down", "--volumes", "--timeout", "5")
    except AssertionError as error:
        raise Unavailable(f"docker-compose does not work: {error}") from None
    try:
        stack.up()
        for gateway in stack.running("gateway"):
            until(partial(reuses, stack.address(gateway), 8440))
        until(stack.reuses)
        yield stack
    finally:
        (logs / "compose.log").write_text(stack.compose("logs", "--no-color"))
        stack.compose("down", "--volumes", "--timeout", "5")


def until(holds: Callable[[], bool], within: float = 60.0) -> None:
    """Waits until *holds* does; one that cannot tell does not."""
    deadline = time.monotonic() + within
    while True:
        try:
            if holds():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, f"{holds} did not come true"
        time.sleep(0.3)


def get(host: str, port: int, path: str) -> tuple[int, bytes]:
    """Asks with GET. Raises OSError."""
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise OSError(repr(error)) from error
    finally:
        connection.close()


def _compose(docker: Docker) -> tuple[str, ...]:
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    try:
        docker("compose", "version")
    except AssertionError:
        raise Unavailable("neither docker-compose nor `docker compose` is there") from None
    return ("docker", "compose")
