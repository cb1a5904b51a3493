"""The gateway between a client and two engines: beside vllm-router, and beside nothing at all."""

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import uvloop

from benchmarks.catalogue import Options
from benchmarks.figure import Figure
from benchmarks.gateway.client import ask, request
from benchmarks.gateway.contenders import DIRECT, OURS, PEER, Contender, all_of_them
from benchmarks.gateway.engine import CHUNKS
from benchmarks.picture import draw
from benchmarks.pinned import cores, on_core
from benchmarks.report import Report
from benchmarks.sample import Samples, percentile, turns

SUMMARY = "the gateway, against vllm-router and the engines alone"
NAMES = (DIRECT, PEER, OURS)
WARM_UP = 0.3  # seconds
ANSWERS = 3  # one after the other, at least, in a round
SETTLED = 1.5  # seconds, within which all have seen the engines


class Case(NamedTuple):
    """How the engines are and what is asked of them."""

    pace: float  # seconds per token
    size: int  # bytes of a prompt
    concurrency: int

    def __str__(self) -> str:
        return f"{self.pace * 1e3:g} ms a token, {self.size // 1000} kB, {self.concurrency} at a time"


CASES = [Case(pace, size, many) for pace in (0.0, 0.005) for size in (1_000, 100_000) for many in (1, 32, 256)]


@dataclass(slots=True)
class Seen:
    """What was measured, by case and contender."""

    cpu: Samples[tuple[Case, str]] = field(default_factory=Samples)
    """Milliseconds of CPU per answer, of the front alone."""
    behind: Samples[tuple[Case, str]] = field(default_factory=Samples)
    """The same of router and registry."""
    rate: Samples[tuple[Case, str]] = field(default_factory=Samples)
    first: Samples[tuple[Case, str]] = field(default_factory=Samples)
    """Milliseconds to the first event, at the median of a round."""
    failed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))


def run(options: Options) -> Report:
    """Measures case by case, contenders in turns."""
    cases = [CASES[1]] if options.smoke else CASES
    seen, rounds, seconds = Seen(), 1 if options.smoke else 3, 0.3 if options.smoke else 0.8
    core, beside = cores()
    with on_core(beside):
        for pace in sorted({case.pace for case in cases}):
            with all_of_them(pace, core, beside) as contenders:
                time.sleep(SETTLED)
                for case in (case for case in cases if case.pace == pace):
                    _measure(seen, case, contenders, rounds, max(seconds, ANSWERS * CHUNKS * pace))
    draw("gateway", lambda axes: _paint(axes, seen, cases), folder=options.results, panels=2)
    return Report(
        bench="gateway",
        columns=[
            "case",
            *(f"{name}: answers/s" for name in NAMES),
            *(f"{name}: CPU, ms" for name in NAMES[1:]),
            "its router and registry",
            *(f"{name}: first byte, ms" for name in NAMES),
        ],
        rows=[
            [
                str(case),
                *(seen.rate.median((case, name)) for name in NAMES),
                *(seen.cpu.median((case, name)) for name in NAMES[1:]),
                seen.behind.median((case, OURS)),
                *(seen.first.median((case, name)) for name in NAMES),
            ]
            for case in cases
        ],
        figures=[figure for case in cases for figure in _figures(case, seen)]
        + [Figure(text="failed requests", value=seen.failed[OURS], at_most=0, note=f"{PEER}: {seen.failed[PEER]}")],
        facts={"CPU, ms": seen.cpu.facts(), "behind, ms": seen.behind.facts(), "first byte, ms": seen.first.facts()},
        notes=(
            *(
                []
                if any(name == PEER for _, name in seen.cpu.of)
                else [f"{PEER} is not installed: `make bench` does it."]
            ),
            f"{CHUNKS} chunks an answer; CPU is that of the front's process per answer. The fronts have one core;",
            "engines, client, kvlease's router and registry share the other: rates are not the fronts' limits.",
        ),
    )


def _measure(seen: Seen, case: Case, contenders: list[Contender], rounds: int, seconds: float) -> None:
    by_name = {contender.name: contender for contender in contenders}
    for contender in contenders:
        _ask(contender, case, WARM_UP)
    for name in turns(tuple(by_name), rounds):
        before = by_name[name].cpu()
        answers = _ask(by_name[name], case, seconds)
        front, *behind = (after - first for first, after in zip(before, by_name[name].cpu(), strict=True))
        seen.failed[name] += answers.failed
        if answers.whole:
            seen.cpu.add((case, name), front / answers.whole * 1e3)
            seen.behind.add((case, name), sum(behind) / answers.whole * 1e3)
            seen.rate.add((case, name), answers.whole / answers.seconds)
            seen.first.add((case, name), percentile(answers.first_bytes, 0.5) * 1e3)


def _ask(contender: Contender, case: Case, seconds: float) -> Any:
    requests = [request(f"conversation-{i}", case.size, contender.address) for i in range(case.concurrency)]
    return uvloop.run(ask(contender.address, requests, seconds))


def _figures(case: Case, seen: Seen) -> list[Figure]:
    if case.concurrency == 1:
        late = seen.first.median((case, OURS)) - seen.first.median((case, PEER))
        return [Figure(text=f"first byte after {PEER}'s, {case}", value=late, at_most=0.5, unit="ms")]
    share = seen.cpu.ratio((case, OURS), (case, PEER))
    whole = (seen.cpu.median((case, OURS)) + seen.behind.median((case, OURS))) / seen.cpu.median((case, PEER))
    note = f"with router and registry {whole:.2f}"
    return [Figure(text=f"CPU per request, of {PEER}'s, {case}", value=share, at_most=1.0, note=note)]


def _paint(panels: Any, seen: Seen, cases: list[Case]) -> None:
    for axes, samples, what in ((panels[0], seen.cpu, "CPU per answer, ms"), (panels[1], seen.first, "first byte, ms")):
        for offset, name in enumerate(NAMES[1:]):
            places = [index + 0.4 * offset for index in range(len(cases))]
            axes.barh(places, [samples.median((case, name)) for case in cases], height=0.4, label=name)
        axes.set_yticks(range(len(cases)), [str(case) for case in cases], fontsize=7)
        axes.set(xlabel=what)
        axes.legend()
