"""Threads of a server take turns."""

import os
import sys
import threading
from collections.abc import Callable

import pytest

from kvlease.rpc import scheduling

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is done")


def in_a_thread(look: Callable[[], int]) -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(look()))
    thread.start()
    thread.join()
    return found[0]


def policy() -> int:
    return os.sched_getscheduler(0)


def test_a_thread_that_takes_turns_starts_others_that_do() -> None:
    def start() -> int:
        scheduling.take_turns()
        return in_a_thread(policy)

    assert in_a_thread(start) == os.SCHED_BATCH


def test_threads_of_before_stay_as_they_are() -> None:
    def start() -> int:
        scheduling.take_turns()
        return 0

    before = policy()
    in_a_thread(start)

    assert policy() == before
