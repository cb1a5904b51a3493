"""A registry in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kvlease.local.ports import free


@contextmanager
def registry() -> Iterator[tuple[str, int]]:
    """Gives its address and its process id."""
    address = f"127.0.0.1:{free(1)[0]}"
    command = [sys.executable, "-m", "kvlease.registry", "--listen", address]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield address, process.pid
        finally:
            process.terminate()
