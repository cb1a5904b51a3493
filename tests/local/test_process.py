"""Processes on a leash."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.local.families import Family, ends

STARTER = """
import sys
from pathlib import Path
from kvlease.local.process import Process
process = Process("family", sys.argv[2:], log=Path(sys.argv[1]), grace=60.0)
process.start()
sys.stdin.read()
"""


def test_stopping_ends_a_process_and_its_children(tmp_path: Path) -> None:
    family = Family(tmp_path)
    family.process.start()
    pipe = family.wait_until_up()

    family.process.stop()

    assert ends(pipe)
    assert not family.process.running
    assert "ended: exit status -15" in family.process.tail()


def test_one_that_ignores_being_told_is_killed_once_its_grace_is_over(tmp_path: Path) -> None:
    family = Family(tmp_path, "stubborn", grace=0.1)
    family.process.start()
    pipe = family.wait_until_up()

    family.process.stop()

    assert ends(pipe)
    assert "did not end within 0.1 s of SIGTERM" in family.process.tail()


def test_killing_takes_the_children_too(tmp_path: Path) -> None:
    family = Family(tmp_path, "stubborn")
    family.process.start()
    pipe = family.wait_until_up()

    family.process.kill()

    assert ends(pipe)


def test_a_frozen_one_can_be_stopped(tmp_path: Path) -> None:
    family = Family(tmp_path)
    family.process.start()
    pipe = family.wait_until_up()

    family.process.pause()
    family.process.stop()

    assert ends(pipe)


def test_a_child_does_not_outlive_its_parent(tmp_path: Path) -> None:
    family = Family(tmp_path, "brief")
    family.process.start()

    assert ends(family.wait_until_up())
    family.process.stop()
    assert "ended: exit status 3" in family.process.tail()


def test_it_can_be_started_again(tmp_path: Path) -> None:
    family = Family(tmp_path)
    family.process.start()
    first = family.wait_until_up()
    family.process.kill()
    assert ends(first)

    family.process.start()
    again = family.wait_until_up()

    assert family.process.running
    family.process.stop()
    assert ends(again)


def test_nothing_outlives_a_starter_that_is_killed(tmp_path: Path) -> None:
    family = Family(tmp_path)
    command = [sys.executable, "-c", STARTER, str(family.process.log), *family.process.command]
    starter = subprocess.Popen(command, stdin=subprocess.PIPE)
    pipe = family.wait_until_up()

    os.kill(starter.pid, signal.SIGKILL)

    assert ends(pipe)
    starter.communicate()


def test_stopping_what_never_started_does_nothing(tmp_path: Path) -> None:
    Family(tmp_path).process.stop()
