"""The services as processes of their own, so that a test can kill, freeze and restart each."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


class Service:
    """One of registry, router and gateway."""

    def __init__(self, name: str, port: int, arguments: Sequence[str], logs: Path) -> None:
        self.name, self.port, self._arguments = name, port, arguments
        self.log = logs / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it and returns when its port accepts connections."""
        command = [sys.executable, "-m", f"kvlease.{self.name}", "--listen", self.address, *self._arguments]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | {"PYTHONUNBUFFERED": "1"}
            )
        for _ in range(300):
            if self._process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError(f"{self.name} does not listen: {self.log.read_text()[-2000:]}")

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        self.wait()

    def wait(self) -> None:
        if self._process is not None:
            self._process.wait(timeout=30)
            self._process = None
