"""What all benchmarks share: figures, tables, files, the command."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import OK, WRONG, main
from benchmarks.catalogue import NAMES, find
from benchmarks.figure import Figure, number
from benchmarks.report import ROOT, Report
from benchmarks.sample import Samples, turns


@pytest.mark.parametrize(
    ("figure", "line"),
    [
        (Figure(text="calls", value=0.9, at_least=0.85), "bench b: ok calls: 0.900 (goal at least 0.850)"),
        (Figure(text="calls", value=0.8, at_least=0.85), "bench b: short calls: 0.800 (goal at least 0.850)"),
        (Figure(text="wait", value=1.0, at_most=2, unit="ms"), "bench b: ok wait: 1.00 ms (goal at most 2 ms)"),
        (
            Figure(text="wait", value=float("nan"), at_most=2, note="no etcd"),
            "bench b: short wait: not measured (goal at most 2; no etcd)",
        ),
    ],
)
def test_a_line_says_what_was_reached(figure: Figure, line: str) -> None:
    assert figure.line("b") == line


@pytest.mark.parametrize(
    ("value", "text"), [(1234567, "1,234,567"), (1234.5, "1,234"), (0.01234, "0.0123"), ("a", "a")]
)
def test_numbers_have_three_digits(value: object, text: str) -> None:
    assert number(value) == text


def test_contenders_take_turns_at_going_first() -> None:
    assert list(turns(["a", "b"], 3)) == ["a", "b", "b", "a", "a", "b"]


def test_a_ratio_is_taken_round_by_round() -> None:
    samples: Samples[str] = Samples()
    for mine, theirs in ((1.0, 2.0), (10.0, 20.0), (100.0, 50.0)):
        samples.add("a", mine)
        samples.add("b", theirs)

    assert samples.ratio("a", "b") == 0.5


def test_a_file_names_no_path_of_the_machine(tmp_path: Path) -> None:
    report = Report(bench="b", columns=["what"], rows=[[float("nan")]], facts={"file": str(ROOT / "x")})

    written = json.loads(report.write(tmp_path).read_text())

    assert written["rows"] == [[None]]
    assert written["facts"] == {"file": "./x"}


def test_every_benchmark_says_what_it_is_for() -> None:
    assert all(find(name).SUMMARY for name in NAMES)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == WRONG

    assert "no benchmark is called nothing" in capsys.readouterr().err


def test_the_codec_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["codec", "--smoke", "--results", str(tmp_path)]) == OK

    assert "bench codec: ok bytes with digests" in capsys.readouterr().out
    assert {file.name for file in tmp_path.iterdir()} == {"codec.json", "codec.svg"}
