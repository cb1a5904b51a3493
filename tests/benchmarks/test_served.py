"""What is kept of stacks that are served."""

import signal
import subprocess
import sys
from pathlib import Path

from benchmarks.multiturn import served
from benchmarks.multiturn.stacks import Stack

STACK = Stack("stock", "m", "http://p", "http://d", "", 1, 9, {})
SERVER = """
import signal, sys
from pathlib import Path
from benchmarks.multiturn import served
from tests.benchmarks.test_served import STACK
def end(*_): raise SystemExit
signal.signal(signal.SIGTERM, end)
with served.announced(STACK, Path(sys.argv[1])):
    print("up", flush=True)
    signal.pause()
"""


def test_a_stack_is_known_for_as_long_as_it_is_served(tmp_path: Path) -> None:
    with served.announced(STACK, tmp_path):
        assert served.stacks(tmp_path) == [STACK]

    assert served.stacks(tmp_path) == []


def test_down_ends_who_serves(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"

        assert served.end(tmp_path, say=print)

        assert process.wait(10) == 0
    assert served.stacks(tmp_path) == []


def test_down_forgets_who_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait(10)

    assert served.end(tmp_path, say=print)
    assert served.stacks(tmp_path) == []
