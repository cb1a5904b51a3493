import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

import pytest

from kvlease.client.testing import FakeRegistry


class Watch:
    """A `kvlease watch` of its own process."""

    def __init__(self, registry: FakeRegistry, *words: str) -> None:
        command = [sys.executable, "-m", "kvlease.cli", "watch", "--registry", registry.address, *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def line(self) -> str:
        return self._of(self.process.stdout).readline()

    def error(self) -> str:
        return self._of(self.process.stderr).readline()

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=30)
        for stream in (self.process.stdout, self.process.stderr):
            self._of(stream).close()
        return code

    @staticmethod
    def _of(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream


@pytest.fixture
def watched() -> Iterator[FakeRegistry]:
    with FakeRegistry() as registry:
        registry.grant("a", tokens=100)
        yield registry


def test_a_line_for_everything_until_ctrl_c(watched: FakeRegistry) -> None:
    watch = Watch(watched)

    assert "exists       a#1  decode on engine  100 tokens" in watch.line()
    assert "synced" in watch.line()
    watched.grant("b\x1b[2J")
    assert "granted      b\\x1b[2J#1" in watch.line()

    assert watch.end() == 0


def test_json_is_an_object_a_line(watched: FakeRegistry) -> None:
    watch = Watch(watched, "a", "--json")

    event = json.loads(watch.line())
    assert (event["kind"], event["lease"]["conversation_id"]) == ("exists", "a")
    assert json.loads(watch.line()) == {"kind": "synced", "lease": None}

    assert watch.end() == 0


def test_a_watch_goes_on_when_the_registry_comes_back(watched: FakeRegistry) -> None:
    watch = Watch(watched)
    watch.line()
    watch.line()

    watched.stop()
    assert "watching again" in watch.error()
    watched.start(watched.port)
    assert "exists" in watch.line()
    watched.stop()
    assert "watching again" in watch.error()

    assert watch.end() == 0


def test_a_registry_that_was_never_there_is_a_failure(watched: FakeRegistry) -> None:
    watched.stop()
    watch = Watch(watched)

    assert watch.process.wait(timeout=30) == 1
    assert "no registry answers" in watch.error()
    watch.end()
