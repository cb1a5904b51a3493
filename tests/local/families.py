"""A process that has a child, and a pipe that ends when both are gone."""

import os
import sys
from pathlib import Path
from typing import TextIO

from kvlease.local.process import Process

CHILD = """
import signal, sys
pipe = open(sys.argv[1], "w")
print("child is up", file=pipe, flush=True)
print(flush=True)
signal.pause()
"""
PARENT = f"""
import signal, subprocess, sys
pipe = open(sys.argv[1], "w")
if sys.argv[2] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}, sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print("parent is up", file=pipe, flush=True)
if sys.argv[2] == "brief":
    sys.exit(3)
signal.pause()
"""


class Family:
    """`ends` returns when nobody of it lives any more."""

    def __init__(self, folder: Path, character: str = "gentle", *, grace: float = 60.0) -> None:
        self.fifo = folder / "family"
        os.mkfifo(self.fifo)
        command = [sys.executable, "-c", PARENT, str(self.fifo), character]
        self.process = Process("family", command, log=folder / "family.log", grace=grace)

    def wait_until_up(self) -> TextIO:
        pipe = self.fifo.open()
        assert {pipe.readline(), pipe.readline()} == {"parent is up\n", "child is up\n"}
        return pipe


def ends(pipe: TextIO) -> bool:
    with pipe:
        return not pipe.read()
