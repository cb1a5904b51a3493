"""What a run showed: medians by leg and length, how legs compare, and the goals."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.multiturn.likeness import difference
from benchmarks.multiturn.results import Turn
from benchmarks.multiturn.stacks import KVLEASE, STOCK
from benchmarks.multiturn.sweep import RECOMPUTE

_COLUMNS = (
    "prompt tokens",
    "leg",
    "n",
    "TTFT ms (lowest to highest)",
    "prefill ms",
    "of it transfer ms",
    "decode's read ms",
    "reused tokens",
    "KV read MB",
    "recompute / this",
    "log-prob difference",
)
Way = tuple[str, str]  # stack, leg
Key = tuple[str, str, int]  # stack, leg, length


@dataclass(frozen=True, slots=True)
class Point:
    """One leg at one length: medians. Times in ms."""

    count: int
    ttft: float
    lowest: float
    highest: float
    prefill: float
    reading: float
    decode_reading: float
    reused: float
    kv_bytes: float


def last_turns(turns: Iterable[Turn]) -> list[Turn]:
    """Those that were timed."""
    return [turn for turn in turns if turn.ttft_ms is not None]


def points(turns: Iterable[Turn]) -> dict[Key, Point]:
    grouped: dict[Key, list[Turn]] = {}
    for turn in last_turns(turns):
        grouped.setdefault((turn.stack, turn.leg, turn.input_tokens), []).append(turn)
    return {key: _point(group) for key, group in grouped.items()}


def lengths(found: Mapping[Key, Point]) -> list[int]:
    return sorted({length for _, _, length in found})


def likeness(turns: Iterable[Turn], one: Way, other: Way) -> dict[int, float]:
    """By length, the largest difference of log-probabilities between last turns served in two ways.

    A pair whose conversations parted before is left out; if no pair is left, there is no entry.
    """
    groups: dict[tuple[int, int, int], dict[Way, list[list[Turn]]]] = {}
    for history in _histories(turns):
        last = history[-1]
        group = groups.setdefault((last.input_tokens, last.round, last.concurrency), {})
        group.setdefault((last.stack, last.leg), []).append(history)
    worst: dict[int, float] = {}
    for (length, _, _), group in groups.items():
        for mine, theirs in zip(group.get(one, ()), group.get(other, ()), strict=False):
            if [turn.tokens for turn in mine[:-1]] == [turn.tokens for turn in theirs[:-1]]:
                worst[length] = max(worst.get(length, 0.0), difference(mine[-1], theirs[-1]))
    return worst


def table(turns: Sequence[Turn]) -> str:
    """A Markdown table of all lengths."""
    found = points(turns)
    alike = {stack: likeness(turns, (stack, RECOMPUTE), (stack, stack)) for stack, _, _ in found}
    rows = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    for length in lengths(found):
        for (stack, leg, _), point in sorted(item for item in found.items() if item[0][2] == length):
            anew = found.get((stack, RECOMPUTE, length))
            ratio = f"{anew.ttft / point.ttft:.2f}" if anew and leg != RECOMPUTE else ""
            apart = f"{alike[stack][length]:.1e}" if leg != RECOMPUTE and length in alike[stack] else ""
            rows.append(
                f"| {length} | {leg if leg == stack else f'{leg} ({stack})'} | {point.count} "
                f"| {point.ttft:.0f} ({point.lowest:.0f} to {point.highest:.0f}) | {point.prefill:.0f} "
                f"| {point.reading:.0f} | {point.decode_reading:.0f} | {point.reused:.0f} | {point.kv_bytes / 1e6:.0f} "
                f"| {ratio} | {apart} |"
            )
    return "\n".join(rows)


def verdicts(turns: Sequence[Turn], *, tolerance: float) -> list[str]:
    """A line per goal, for as many as the run has something to say about."""
    found, kept = points(turns), (KVLEASE, KVLEASE)
    anew_alike, stock_alike = likeness(turns, (KVLEASE, RECOMPUTE), kept), likeness(turns, (STOCK, STOCK), kept)
    lines = []
    for length in lengths(found):
        ours, stock = found.get((KVLEASE, KVLEASE, length)), found.get((STOCK, STOCK, length))
        anew = found.get((KVLEASE, RECOMPUTE, length))
        if ours and anew and length >= 20_000:
            lines.append(verdict(f"TTFT of recompute / kvlease at {length}", anew.ttft / ours.ttft, least=6.5))
        if ours and stock:
            most = 0.9 if length >= 8_000 else 1.0
            lines.append(verdict(f"TTFT of kvlease / stock at {length}", ours.ttft / stock.ttft, most=most))
        if length in stock_alike:
            what = f"log-probability difference of kvlease from stock at {length}"
            lines.append(verdict(what, stock_alike[length], most=tolerance))
        if length in anew_alike:
            what = f"log-probability difference of kvlease at {length}"
            lines.append(verdict(what, anew_alike[length], most=tolerance))
        elif ours and anew:
            lines.append(f"bench multiturn: short no two answers of kvlease at {length} could be compared")
    return lines


def verdict(what: str, seen: float, *, least: float = -math.inf, most: float = math.inf) -> str:
    """A figure and its goal, and whether it is reached."""
    goal = f">= {least:g}" if most == math.inf else f"<= {most:g}"
    return f"bench multiturn: {'ok' if least <= seen <= most else 'short'} {what} = {seen:.3g} (goal {goal})"


def _point(group: Sequence[Turn]) -> Point:
    ttfts = [turn.ttft_ms for turn in group if turn.ttft_ms is not None]
    return Point(
        count=len(group),
        ttft=median(ttfts),
        lowest=min(ttfts),
        highest=max(ttfts),
        prefill=median(turn.prefill_ms for turn in group),
        reading=median(turn.kv_transfer_ms for turn in group),
        decode_reading=median(turn.decode_transfer_ms for turn in group),
        reused=median(turn.reused_tokens for turn in group),
        kv_bytes=median(turn.kv_bytes for turn in group),
    )


def _histories(turns: Iterable[Turn]) -> list[list[Turn]]:
    """The turns of each conversation, in order."""
    held: dict[str, list[Turn]] = {}
    for turn in turns:
        held.setdefault(turn.conversation_id, []).append(turn)
    return [
        sorted(history, key=lambda turn: turn.turn) for history in held.values() if len(history) == history[-1].turns
    ]
