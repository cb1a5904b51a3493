"""The file of a run."""

from pathlib import Path

from benchmarks.multiturn.results import Log, read, turns
from benchmarks.multiturn.stacks import Stack
from tests.benchmarks.runs import turn

STACK = Stack("stock", "m", "http://p", "http://d", "", 1, 9, {"vllm": "0.29.0"})


def test_the_first_line_tells_versions_flags_and_hardware(tmp_path: Path) -> None:
    log = Log(tmp_path / "deeper" / "run.jsonl")

    log.begin([STACK], name="n")

    (head,) = read(log.file)
    assert head["stacks"] == {"stock": {"vllm": "0.29.0"}}
    assert head["hardware"]["cores"] > 0
    assert head["packages"]["grpcio"]


def test_turns_come_back_as_they_were(tmp_path: Path) -> None:
    log, seen = Log(tmp_path / "run.jsonl"), turn("stock", 900, 9.0, stack="stock")

    log.begin([STACK])
    log.add(seen)
    log.add({"kind": "idle"})

    assert turns(read(log.file)) == [seen]


def test_a_stack_comes_back_as_it_was(tmp_path: Path) -> None:
    STACK.save(tmp_path / "stock.json")

    assert Stack.load(tmp_path / "stock.json") == STACK
