"""How Linux schedules a server's threads."""

import contextlib
import os
import sys


def take_turns() -> None:
    """Lets the calling thread, and those that it starts from now on, wait for one another: to be called first of all.

    gRPC's threads hand every call to and fro, and by default each that wakes interrupts the one that runs, half a dozen
    times a call where they share a processor. In turns each finds more to do at once, which takes a third less CPU.
    Between processes nothing is measured to change. Does nothing where it is not allowed, or not Linux.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
