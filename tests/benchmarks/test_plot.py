"""The two pictures."""

from pathlib import Path

from benchmarks.multiturn.plot import draw
from tests.benchmarks.runs import whole


def test_both_pictures_are_drawn_and_tell_their_legs(tmp_path: Path) -> None:
    files = draw(whole(), tmp_path / "pictures", title="a run")

    assert sorted(file.name for file in files) == ["prefill.png", "prefill.svg", "ttft.png", "ttft.svg"]
    assert all(file.stat().st_size > 1000 for file in files)


def test_the_same_run_gives_the_same_picture(tmp_path: Path) -> None:
    one, other = (draw(whole(), tmp_path / name, title="a run")[0].read_text() for name in ("one", "other"))

    assert one == other
