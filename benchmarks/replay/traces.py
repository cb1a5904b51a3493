"""Conversations as they were: gaps, times and sizes of turns, without a word of text."""

import gzip
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlease.registry.lease import StopReason

STOPS = {"tool_use": StopReason.TOOLS_CALLED, "end_turn": StopReason.ANSWERED, "max_tokens": StopReason.LENGTH}


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn; lengths are seconds."""

    gap: float
    """From the end of the turn before to this one's request."""
    busy: float
    """From the request to the end of the answer."""
    tokens: int
    """Prompt and answer together: what is kept for the next turn."""
    stop_reason: StopReason


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation."""

    name: str
    turns: tuple[Turn, ...]


def read(file: Path) -> list[Talk]:
    """Reads JSON lines, compressed or not: `id` and `turns` as in WEKA's traces of Claude Code. Raises OSError."""
    content = file.read_bytes()
    text = gzip.decompress(content) if file.suffix == ".gz" else content
    return [_talk(json.loads(line)) for line in text.splitlines()]


def drawn(count: int, *, seed: int = 1) -> list[Talk]:
    """Draws conversations somewhat like real ones: for trying things out, never for figures."""
    rng = random.Random(seed)  # noqa: S311 - the same in every run
    return [Talk(f"drawn-{i}", tuple(_turns(rng))) for i in range(count)]


def _talk(row: dict[str, Any]) -> Talk:
    """Reads a row: a turn is [begun, gap, busy, tokens in, tokens out, blocks, blocks shared, stop reason, ...]."""
    turns = (Turn(float(x[1]), float(x[2]), x[3] + x[4], STOPS.get(x[7], StopReason.UNKNOWN)) for x in row["turns"])
    return Talk(row["id"], tuple(turns))


def _turns(rng: random.Random) -> Iterator[Turn]:
    pace, tokens, gap = rng.gauss(0, 0.7), rng.randint(5_000, 100_000), 0.0
    for _ in range(rng.randint(2, 40)):
        tools = rng.random() < 0.9
        tokens += rng.randint(100, 3_000)
        yield Turn(gap, rng.uniform(2, 20), tokens, StopReason.TOOLS_CALLED if tools else StopReason.ANSWERED)
        gap = math.exp(rng.gauss((2.3 if tools else 5.0) + pace, 1.2))
