"""Setting a checkout up."""

import sys
from pathlib import Path

import pytest

from tools import checkout
from tools.checkout import SetupError, need_space, once, run


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log = tmp_path / "cache" / "setup.log"
    monkeypatch.setattr(checkout, "LOG", log)
    return log


def test_a_step_is_done_once_and_again_when_what_it_is_made_of_changes(tmp_path: Path) -> None:
    done: list[str] = []

    for version in ("1", "1", "2"):
        once("a thing", tmp_path / "made", [version], lambda: done.append("done"))

    assert done == ["done", "done"]


def test_a_step_that_failed_is_tried_again(tmp_path: Path) -> None:
    def fail() -> None:
        raise SetupError("no")

    for _ in range(2):
        with pytest.raises(SetupError):
            once("a thing", tmp_path / "made", [], fail)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", "the disk is full"),
        ("Temporary failure in name resolution", "check the network"),
        ("ERROR: Could not find a version that satisfies x (from versions: none)", "check the network"),
        ("ERROR: No matching distribution found for torch==2.13.0+cpu", "no CPU build of torch"),
        ("The virtual environment was not created: ensurepip is not available", "python3-venv"),
        ("something else", "a command failed"),
    ],
)
def test_a_failure_says_why_and_shows_the_end_of_the_log(said: str, cause: str) -> None:
    with pytest.raises(SetupError) as failed:
        run([sys.executable, "-c", f"import sys; print({said!r}); sys.exit(1)"])

    assert cause in str(failed.value)
    assert said in str(failed.value)


def test_what_an_earlier_command_said_is_no_cause() -> None:
    run([sys.executable, "-c", "print('No space left on device')"])

    with pytest.raises(SetupError, match="a command failed"):
        run([sys.executable, "-c", "import sys; sys.exit(1)"])


def test_too_little_disk_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(SetupError, match="1000000 GB of disk are needed"):
        need_space(1_000_000)
