"""Files that change while a service runs."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kvlease.rpc.watched import Watched
from tests.support.clock import FakeClock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "number"
    found.write_text("1")
    return found


def watch(file: Path, clock: FakeClock) -> Watched[int]:
    return Watched([file], lambda: int(file.read_text()), pause=1.0, clock=clock)


def replace(file: Path, text: str) -> None:
    """Puts a new file in its place, as whoever renews certificates does."""
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(file)


def test_a_changed_file_is_read_again_after_the_pause(file: Path) -> None:
    clock = FakeClock()
    watched = watch(file, clock)

    replace(file, "22")
    assert watched.get() == 1
    clock.advance(1.0)
    assert watched.get() == 22


def test_nonsense_is_told_once_and_what_was_there_before_stays(file: Path) -> None:
    clock = FakeClock()
    watched = watch(file, clock)
    replace(file, "none")

    with capture_logs() as lines:
        for _ in range(3):
            clock.advance(1.0)
            assert watched.get() == 1

    assert [line["event"] for line in lines] == ["changed files not taken"]
    replace(file, "333")
    clock.advance(1.0)
    assert watched.get() == 333


def test_a_file_that_goes_and_comes_back_is_read_again(file: Path) -> None:
    clock = FakeClock()
    watched = watch(file, clock)

    file.unlink()
    with capture_logs() as lines:
        for _ in range(3):
            clock.advance(1.0)
            assert watched.get() == 1
    assert [line["event"] for line in lines] == ["changed files not taken"]
    file.write_text("4444")
    clock.advance(1.0)
    assert watched.get() == 4444


def test_what_is_not_there_at_first_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        watch(tmp_path / "nothing", FakeClock())
