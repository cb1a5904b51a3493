import sys

import pytest

from kvlease.cli import engines
from kvlease.cli.output import colored, length, narrowed, print_table
from tests.cli.records import engine


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0.0, "0.0s"), (9.94, "9.9s"), (10.0, "10s"), (59.4, "59s"), (59.6, "1m00s"), (200.0, "3m20s"), (7500.0, "2h05m")],
)
def test_a_duration_is_written_for_people(seconds: float, written: str) -> None:
    assert length(seconds) == written


HEADINGS, ROW = ["NAME", "FREE", "URL"], ["d0", "4096/4096", "http://127.0.0.1:8000"]


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(38, ()), (37, ("URL",)), (15, ("URL",)), (14, ("URL", "NAME")), (1, ("URL", "NAME"))],
)
def test_columns_go_so_that_nothing_is_cut(width: int, left_out: tuple[str, ...]) -> None:
    assert tuple(narrowed(HEADINGS, [ROW], ("URL", "NAME"), width)) == left_out


@pytest.mark.parametrize("width", ["20", "60", "80", "120"])
def test_a_terminal_of_any_width_is_shown_whole_numbers(
    width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", width)

    print_table(engines.COLUMNS, [engine("127.0.0.1:5600")], spare=engines.SPARE)

    shown = capsys.readouterr()
    assert "900/1000" in shown.out
    assert "…" not in shown.out
    assert len(shown.out.splitlines()) == 2
    assert ("not shown for want of width" in shown.err) == (width != "200")


@pytest.mark.parametrize(
    ("environ", "colours"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_who_wants_no_colours_gets_none(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, colours: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert colored(environ) is colours
