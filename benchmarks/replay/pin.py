"""Stock's way, without a registry: every turn is pinned for so long, and what does not fit is not kept."""

import heapq

from benchmarks.replay.tally import Tally
from benchmarks.replay.traffic import Traffic

PIN = 480.0
"""Seconds."""


def pin(traffic: Traffic, *, budget: float = float("inf"), end: bool = False) -> Tally:
    """Replays; the budget is in tokens. With `end` a conversation's last turn is not kept."""
    tally, pinned, used = Tally(traffic), dict[int, tuple[float, int]](), 0
    ends: list[tuple[float, int]] = []
    for happening in traffic.happenings:
        at, index, turn, over = happening
        while ends and ends[0][0] <= at:
            due, other = heapq.heappop(ends)
            if other in pinned and pinned[other][0] + PIN <= due:
                since, tokens = pinned.pop(other)
                used -= tokens
                tally.let_go(tokens, since, due)
        part = traffic.parts[index]
        turns = part.turns
        if over:
            tokens = turns[turn].tokens
            if used + tokens <= budget and not (end and part.ends and turn + 1 == len(turns)):
                pinned[index] = (at, tokens)
                used += tokens
                heapq.heappush(ends, (at + PIN, index))
        else:
            since, tokens = pinned.pop(index, (at, 0))
            used -= tokens
            tally.let_go(tokens, since, at)
            tally.came(happening, turns[turn - 1].tokens, hit=tokens > 0)
    for since, tokens in pinned.values():
        tally.let_go(tokens, since, since + PIN)
    return tally
