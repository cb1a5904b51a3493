"""Which leases to keep, and for how long: policies of the registry, replayed over conversations of real agents."""

import multiprocessing
import os
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.catalogue import Options, Unavailable
from benchmarks.figure import Figure
from benchmarks.picture import draw
from benchmarks.replay.contenders import HABITS, POLICIES, RECENT, REFUSE, patient, within
from benchmarks.replay.pin import pin
from benchmarks.replay.tally import Tally
from benchmarks.replay.traces import drawn, read
from benchmarks.replay.traffic import arrange
from benchmarks.report import Report

SUMMARY = "retention policies, replayed over traces of real conversations"
TRACES = "KVLEASE_TRACES"
BUDGETS = (1.5, 1.0, 0.5, 0.25)
PATIENCE = (60.0, 120.0, 240.0, 360.0, 480.0, 540.0, 600.0, 660.0, 720.0)
LINES = (REFUSE, *POLICIES)
ENDED = (RECENT, HABITS)
"""Policies that are also shown with conversations that their clients end."""
PER_HOUR = 64.0
"""Conversations that begin in an hour on one decode engine."""
K = TypeVar("K", bound=Hashable)


def run(options: Options) -> Report:
    """Replays the file that $KVLEASE_TRACES names; with `smoke` a few drawn conversations."""
    if options.smoke:
        talks = drawn(20)
    elif file := os.environ.get(TRACES):
        talks = read(Path(file))
    else:
        raise Unavailable(f"${TRACES} names no file; claude_code_turns.jsonl.gz of kv-cache-tester is meant")
    traffic = arrange(talks, per_hour=PER_HOUR, seed=1)
    full = pin(traffic)
    budgets = BUDGETS[2:] if options.smoke else BUDGETS
    tallies = _played(
        {
            (policy, share, end): partial(within, policy, traffic, share * full.demand, end=end)
            for policy in LINES
            for share in budgets
            for end in ((False, True) if policy in ENDED else (False,))
        }
    )
    lives = _played(
        {
            (patience, end): partial(patient, traffic, patience, end=end)
            for patience in (PATIENCE[:2] if options.smoke else PATIENCE)
            for end in (False, True)
        }
    )
    draw("replay", lambda axes: _paint(axes, full, tallies, lives), folder=options.results, panels=2)
    return Report(
        bench="replay",
        columns=[
            "policy",
            "memory",
            "conversations are ended",
            "turns that hit",
            "tokens that hit",
            "kept, of the pin's",
        ],
        rows=[
            ["pin of 480 s", "enough", "no", *_row(full, full)],
            *([policy, share, "yes" if end else "no", *_row(x, full)] for (policy, share, end), x in tallies.items()),
            *(
                [f"{HABITS}, patience {patience:g} s", "enough", "yes" if end else "no", *_row(x, full)]
                for (patience, end), x in lives.items()
            ),
        ],
        figures=_figures(full, tallies, lives),
        facts={"turns": full.turns, "demand": full.demand, "per_hour": PER_HOUR},
        notes=(
            "memory: of the mean demand of a fixed pin of 480 s. kept: token-seconds between turns, of that pin's.",
            f"{full.turns:,} turns are counted, of conversations that come after those that are learned from.",
        ),
    )


def _played(replays: Mapping[K, Callable[[], Tally]]) -> dict[K, Tally]:
    """Plays each, as many at a time as there are processors: nothing is timed."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        playing = {key: pool.submit(replay) for key, replay in replays.items()}
        return {key: replay.result() for key, replay in playing.items()}


def _row(tally: Tally, full: Tally) -> list[float]:
    return [tally.hit_rate, tally.token_rate, tally.demand / full.demand]


def _figures(
    full: Tally, tallies: dict[tuple[str, float, bool], Tally], lives: dict[tuple[float, bool], Tally]
) -> list[Figure]:
    figures = []
    for end in (False, True):
        how = "conversations ended by their clients" if end else "no conversation ended by its client"
        half = tallies[HABITS, 0.5, end].hit_rate
        within_reach = [x.hit_rate for (_, ended), x in lives.items() if ended is end and x.demand <= 0.6 * full.demand]
        figures += [
            Figure(text="turns that hit with half the memory", value=half, at_least=0.91, note=how),
            Figure(
                text="turns that hit with at most 0.6 of the pinned token-seconds",
                value=max(within_reach, default=float("nan")),
                at_least=0.95,
                note=f"{how}; {full.hit_rate:.3f} with all of them",
            ),
        ]
    return figures


def _paint(
    axes: Any, full: Tally, tallies: dict[tuple[str, float, bool], Tally], lives: dict[tuple[float, bool], Tally]
) -> None:
    left, right = axes
    shares = sorted({share for _, share, _ in tallies})
    for policy in LINES:
        for end, style in ((False, "-"), (True, ":")):
            if end and policy not in ENDED:
                continue
            hits = [tallies[policy, share, end].hit_rate for share in shares]
            left.plot(shares, hits, style, marker="o", label=f"{policy}{', ended by clients' if end else ''}")
    left.set(xlabel="memory, of the demand of a pin of 480 s", ylabel="turns that hit", title="With limited memory")
    left.legend()
    for end, style in ((False, "-"), (True, ":")):
        points = [(x.demand / full.demand, x.hit_rate) for (_, ended), x in lives.items() if ended is end]
        right.plot(*zip(*points, strict=True), style, marker="o", label=f"habits{', ended by clients' if end else ''}")
    right.plot([1.0], [full.hit_rate], "s", label="pin of 480 s")
    right.set(xlabel="token-seconds kept, of that pin's", ylabel="turns that hit", title="With room enough")
    right.legend()
