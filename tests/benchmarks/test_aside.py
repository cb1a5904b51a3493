"""What a run showed under pressure, and of idle conversations."""

from typing import Any

from benchmarks.multiturn.aside import verdicts


def arrival(stack: str, during: str, ttft: float | None) -> dict[str, Any]:
    common = {"kind": "pressure", "stack": stack, "kv_usage": 0.95, "preemptions": 0}
    return common | {"during": during, "answered": ttft is not None, "ttft_ms": ttft}


def idle(stack: str, pinned: float) -> dict[str, Any]:
    scene = {"kind": "idle", "seconds": 600.0, "haste": 20.0, "returned": 4, "reused": 3}
    return scene | {"stack": stack, "pinned_token_seconds": pinned}


def test_who_was_not_served_in_time_is_counted() -> None:
    (said,) = verdicts([arrival("stock", "empty", 10.0), arrival("stock", "full", None)])

    assert said.startswith("stock: 0 of 1 new conversations served with decode's pool full")
    assert said.endswith("(usage 95%, 0 preempted); TTFT ms empty 10 (10 to 10), full none")


def test_kvlease_must_serve_all_and_about_as_soon() -> None:
    said = verdicts([arrival("kvlease", "empty", 10.0), arrival("kvlease", "full", 25.0)])

    assert "ok new conversations not served by kvlease = 0" in said[1]
    assert "short TTFT of kvlease, full / empty pool = 2.5" in said[2]


def test_pinned_memory_is_compared() -> None:
    assert verdicts([idle("stock", 200.0), idle("kvlease", 50.0)])[-1].endswith("kvlease / stock = 0.25")


def test_controls_are_told() -> None:
    (said,) = verdicts([{"kind": "control", "stack": "stock", "again": 0.0, "edited": 0.5}])

    assert said.endswith("the same prompt again differs by 0.0e+00, with one early token edited by 0.5")


def test_what_splitting_a_computation_costs_is_told() -> None:
    line = {"kind": "split", "stack": "stock", "input_tokens": 4000, "cached_tokens": 3728, "apart": 0.25}

    (said,) = verdicts([line])

    assert said.endswith("at 4000 tokens differ by 0.25 if 3728 of them come from its own prefix cache")
