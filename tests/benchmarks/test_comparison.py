"""A whole comparison on real engines, small: both stacks, all legs."""

import os
from pathlib import Path

import pytest

from benchmarks.multiturn.__main__ import main
from benchmarks.multiturn.results import read, turns
from benchmarks.multiturn.summary import likeness

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

VERSION = os.environ.get("KVLEASE_TEST_VLLM", "0.29.0")
SMALL = [
    *("--legs", "sweep,idle,pressure", "--lengths", "450,700", "--rounds", "1", "--answer", "4", "--think", "500ms"),
    *("--blocks", "64", "--context", "4096", "--haste", "60"),
    *("--pressure-length", "600", "--arrivals", "2", "--bound", "3s", "--idle-length", "300"),
    *("--idle-conversations", "4"),
]


def test_both_stacks_are_compared_on_this_machine(tmp_path: Path) -> None:
    logs = Path(os.environ.get("KVLEASE_TEST_LOGS") or tmp_path) / "multiturn"

    ended = main(["compare", "--vllm", VERSION, "--results", str(tmp_path), "--logs", str(logs), *SMALL])

    assert ended == 0
    (file,) = tmp_path.glob("*.jsonl")
    _, *lines = read(file)
    last = [turn for turn in turns(lines) if turn.ttft_ms is not None]
    assert {(turn.stack, turn.leg, turn.input_tokens) for turn in last} == {
        (stack, leg, length) for stack in ("stock", "kvlease") for leg in ("recompute", stack) for length in (450, 700)
    }
    assert all(bool(turn.reused_tokens) == (turn.leg != "recompute") for turn in last)
    assert all(bool(turn.kv_bytes) == (turn.leg != "recompute") for turn in last)
    anew, kept, stock = ("kvlease", "recompute"), ("kvlease", "kvlease"), ("stock", "stock")
    for one, other in ((anew, kept), (("stock", "recompute"), stock), (stock, kept)):
        alike = likeness(turns(lines), one, other)
        assert set(alike) == {450, 700}
        assert max(alike.values()) < 1e-3
    assert all(line["edited"] > 1e-3 for line in lines if line["kind"] == "control")
    splits = [line for line in lines if line["kind"] == "split"]
    assert [line["input_tokens"] for line in splits] == [450, 700] * 2
    assert all(line["cached_tokens"] and line["apart"] < 1e-3 for line in splits)
    pressed = [line for line in lines if line["kind"] == "pressure" and line["stack"] == "kvlease"]
    assert all(line["answered"] for line in pressed)
    assert [line["stack"] for line in lines if line["kind"] == "idle"] == ["stock", "kvlease"]
    assert (file.with_suffix("") / "ttft.svg").is_file()
