"""What a run showed beside the sweep: under pressure, of idle conversations, and of log-probabilities as such."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.multiturn.stacks import KVLEASE, STOCK
from benchmarks.multiturn.summary import verdict

Line = Mapping[str, Any]


def verdicts(lines: Sequence[Line]) -> list[str]:
    """A line for all that there is something to say about."""
    return [
        *(_control(line) for line in lines if line["kind"] == "control"),
        *(_split(line) for line in lines if line["kind"] == "split"),
        *_pressure([line for line in lines if line["kind"] == "pressure"]),
        *_idle([line for line in lines if line["kind"] == "idle"]),
    ]


def _control(line: Line) -> str:
    return (
        f"log-probabilities on {line['stack']}'s engines: the same prompt again differs by {line['again']:.1e}, "
        f"with one early token edited by {line['edited']:.2g}"
    )


def _split(line: Line) -> str:
    return (
        f"log-probabilities on {line['stack']}'s decode alone at {line['input_tokens']} tokens differ by "
        f"{line['apart']:.2g} if {line['cached_tokens']} of them come from its own prefix cache"
    )


def _pressure(lines: Sequence[Line]) -> list[str]:
    said = []
    for stack in dict.fromkeys(line["stack"] for line in lines):
        empty = _ttfts(line for line in lines if line["stack"] == stack and line["during"] == "empty")
        full = [line for line in lines if line["stack"] == stack and line["during"] == "full"]
        ttfts = _ttfts(full)
        told = f"{stack}: {len(ttfts)} of {len(full)} new conversations served with decode's pool full of kept ones"
        usage = f"usage {max((line['kv_usage'] for line in full), default=0):.0%}"
        preempted = sum(line["preemptions"] for line in full)
        said.append(f"{told} ({usage}, {preempted} preempted); TTFT ms empty {_span(empty)}, full {_span(ttfts)}")
        if stack == KVLEASE and full and empty:
            said.append(verdict("new conversations not served by kvlease", len(full) - len(ttfts), most=0))
            if ttfts:
                said.append(verdict("TTFT of kvlease, full / empty pool", median(ttfts) / median(empty), most=2.0))
    return said


def _idle(lines: Sequence[Line]) -> list[str]:
    said = [
        f"{line['stack']}: {line['pinned_token_seconds']:.3g} token-seconds pinned in {line['seconds']:g} s "
        f"(played {line['haste']:g} times faster), {line['reused']} of {line['returned']} returns reused"
        for line in lines
    ]
    pinned = {line["stack"]: line["pinned_token_seconds"] for line in lines}
    if pinned.keys() >= {KVLEASE, STOCK}:
        said.append(f"token-seconds pinned, kvlease / stock = {pinned[KVLEASE] / pinned[STOCK]:.3g}")
    return said


def _ttfts(lines: Iterable[Line]) -> list[float]:
    return [line["ttft_ms"] for line in lines if line["answered"]]


def _span(times: Sequence[float]) -> str:
    return f"{median(times):.0f} ({min(times):.0f} to {max(times):.0f})" if times else "none"
