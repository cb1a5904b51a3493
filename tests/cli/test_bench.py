"""`kvlease bench` needs a checkout."""

from argparse import Namespace
from pathlib import Path

import pytest

from kvlease.cli import bench
from kvlease.cli.__main__ import main


def test_an_installed_package_says_that_it_has_no_benchmarks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.run(Namespace(), root=tmp_path) == 1

    assert "run it from a checkout" in capsys.readouterr().err


def test_it_lists_what_there_is(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list"]) == 0

    assert "codec" in capfd.readouterr().out
