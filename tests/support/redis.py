"""A real Redis of one's own."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from kvlease.local import ports

WAIT = 30.0


class RedisServer:
    """redis-server on a free port, without persistence unless told otherwise; can be killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = ports.free(1)[0]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        command += ["--save", "", "--appendonly", "no", "--loglevel", "warning", *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        ends_at = time.monotonic() + WAIT
        while self.cli("ping") != "PONG":
            assert time.monotonic() < ends_at, "redis-server does not answer"
            time.sleep(0.02)

    def cli(self, *command: str) -> str:
        """Calls redis-cli."""
        called = ["redis-cli", "-p", str(self.port), *command]
        return subprocess.run(called, capture_output=True, text=True, check=False, timeout=WAIT).stdout.strip()

    def client(self) -> redis.Redis:
        """A client, connected with its first call."""
        return redis.Redis(port=self.port, socket_timeout=WAIT)

    def send_signal(self, number: int) -> None:
        """Sends the process a signal."""
        assert self._process
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kills it; nothing is left."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def redis_server(*options: str) -> Iterator[RedisServer]:
    """A server that has started. Skips the test where there is no redis-server."""
    if shutil.which("redis-server") is None:
        pytest.skip("NO REDIS IS TESTED: redis-server is not installed (apt-get install redis-server)")
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder), *options)
        server.start()
        try:
            yield server
        finally:
            server.kill()
