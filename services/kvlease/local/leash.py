"""Runs a command for as long as this process's standard input stays open: `python leash.py GRACE COMMAND...`.

Whoever started it holds the other end of that pipe; however they end, even killed, the kernel closes it. Then, or on
SIGTERM, the command is asked to end (SIGTERM), has GRACE seconds for it, and the whole process group is killed: an
engine's subprocesses outlive nobody. The group must be this process's own (`start_new_session`).
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

_TOLD_TO_END = {signal.SIGTERM, signal.SIGINT}


def run(command: Sequence[str], *, grace: float) -> None:
    """Runs the command and ends with the group's death, this process included: there is no exit status to see."""
    signals = _signals()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while child.poll() is None:
        readable, _, _ = select.select([sys.stdin, signals], [], [])
        if sys.stdin in readable or _TOLD_TO_END.intersection(os.read(signals, 64)):
            _end(child, grace)
    print(f"ended: exit status {child.returncode}", file=sys.stderr, flush=True)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _signals() -> int:
    """A descriptor on which the numbers of the signals that arrive can be read."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGCHLD, *_TOLD_TO_END):
        signal.signal(number, lambda *_: None)
    return reader


def _end(child: "subprocess.Popen[bytes]", grace: float) -> None:
    child.terminate()
    try:
        child.wait(grace)
    except subprocess.TimeoutExpired:
        print(f"did not end within {grace:g} s of SIGTERM", file=sys.stderr, flush=True)
        child.kill()
        child.wait()


if __name__ == "__main__":
    run(sys.argv[2:], grace=float(sys.argv[1]))
