"""A whole turn on real engines: what the control plane adds to the time to the first token, and stock beside it."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.catalogue import Options, Unavailable
from benchmarks.figure import Figure
from benchmarks.multiturn import models
from benchmarks.multiturn.drivers import EndpointDriver
from benchmarks.multiturn.results import Turn
from benchmarks.multiturn.stacks import KVLEASE, STOCK, Prepared, Serving, Stack, prepare, running
from benchmarks.multiturn.sweep import Leg, Plan, legs_of, session, sweep
from benchmarks.picture import draw
from benchmarks.pinned import python, serving
from benchmarks.report import Report
from benchmarks.sample import Samples
from benchmarks.turn.rpcs import RESOLVE, SERIAL, measure
from kvlease.local import install, model

SUMMARY = "a whole turn on real vLLM: time to the first token, and the control plane's share of it"
LENGTH = 2_000  # tokens
CONTEXT = 4_096
PATIENCE = 1.0  # seconds; a machine of two busy cores is not to decide what is shown
SEQUENTIAL = "kvlease, decode after prefill"
CONTENDERS = (STOCK, KVLEASE, SEQUENTIAL)


def run(options: Options) -> Report:
    """Serves both stacks side by side, and holds conversations with them in turn."""
    rounds = 1 if options.smoke else 15
    turns, rpcs = _held(rounds)
    first: Samples[str] = Samples()
    for turn in turns:
        if turn.ttft_ms is not None:
            first.add(turn.leg, turn.ttft_ms)
    prefill = {
        leg: median([t.prefill_ms for t in turns if t.leg == leg and t.ttft_ms is not None]) for leg in CONTENDERS
    }
    control = sum(rpcs[name] for name in SERIAL)
    draw("turn", lambda axes: _paint(axes, first, prefill, rpcs), folder=options.results)
    return Report(
        bench="turn",
        columns=["", "TTFT, ms", "lowest", "highest", "of which prefill, ms"],
        rows=[[leg, first.median(leg), *first.of[leg].spread, prefill[leg]] for leg in CONTENDERS]
        + [[name, rpcs[name], "", "", ""] for name in (*SERIAL, RESOLVE)],
        figures=[
            Figure(text="TTFT, of stock's", value=first.ratio(KVLEASE, STOCK), at_most=1.0),
            Figure(
                text="TTFT with decode after prefill, of stock's", value=first.ratio(SEQUENTIAL, STOCK), at_most=1.0
            ),
        ],
        facts={"TTFT, ms": first.facts(), "RPC, ms": rpcs, "tokens": LENGTH, "rounds": rounds},
        notes=(
            f"Conversations of {LENGTH} tokens, last turn streamed, vLLM on CPU with the tiny model, both pairs at",
            "the same time. Stock: inline parameters, by a driver inside the client that asks prefill, then decode.",
            f"The control plane's share of kvlease's TTFT: {control / first.median(KVLEASE):.3f}.",
            f"The RPCs are called alone on the same servers; {' + '.join(SERIAL)} is what a token waits for.",
        ),
    )


def _held(rounds: int) -> tuple[list[Turn], dict[str, float]]:
    """Holds the conversations, and measures the RPCs on the same servers. Raises Unavailable."""
    turns: list[Turn] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        try:
            prepared = [prepare(_serving(name), logs=Path(folder)) for name in (STOCK, KVLEASE)]
        except install.EngineUnavailable as error:
            raise Unavailable(str(error)) from error
        stock, ours = (stack.enter_context(running(each, say=_say)) for each in prepared)
        late = stack.enter_context(_second_gateway(prepared[1]))
        asyncio.run(_hold(stock, ours, late, rounds, turns))
        control = prepared[1].control
        if control is None:
            raise Unavailable("kvlease is served without a control plane")
        return turns, measure(control.registry, control.router, tokens=LENGTH, turns=5 * rounds)


async def _hold(stock: Stack, ours: Stack, late: str, rounds: int, turns: list[Turn]) -> None:
    plan = Plan([LENGTH], {"": rounds}, turns=2, message=256, answer=8, think=0.2, concurrency=1, seed="turn")
    async with session() as http:
        legs = [legs_of(stock, http)[1], legs_of(ours, http)[1]]
        legs.append(Leg(SEQUENTIAL, ours, EndpointDriver(http, late, ours.model, named=True)))
        await sweep(legs, plan, add=lambda seen: turns.append(seen) if isinstance(seen, Turn) else None, say=_say)


@contextmanager
def _second_gateway(prepared: Prepared) -> Iterator[str]:
    """A gateway that sends decode its request once prefill is done, before the same engines."""
    if prepared.control is None:
        raise Unavailable("kvlease is served without a control plane")
    where = ("--router", prepared.control.router, "--registry", prepared.control.registry, "--wait", f"{PATIENCE:g}s")
    with serving(
        "gateway", python("kvlease.gateway", "--listen", "127.0.0.1:0", *where, "--sequential-dispatch")
    ) as on:
        yield f"http://{on.address}"


def _serving(stack: str) -> Serving:
    tiny = models.find(models.TINY, cache=model.default_cache(), load_format="")
    return Serving(stack=stack, model=tiny, cuda=None, version="0.29.0", context=CONTEXT, patience=PATIENCE)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _paint(axes: Any, first: Samples[str], prefill: dict[str, float], rpcs: dict[str, float]) -> None:
    axes.barh(CONTENDERS, [first.median(leg) for leg in CONTENDERS], color="lightgrey", label="TTFT")
    axes.barh(CONTENDERS, [prefill[leg] for leg in CONTENDERS], height=0.5, label="prefill's engine")
    at = 0.0
    for name in SERIAL:
        axes.barh([KVLEASE], [rpcs[name]], left=[at], height=0.2, label=name)
        at += rpcs[name]
    axes.set(xlabel="ms", title=f"The last turn of a conversation of {LENGTH} tokens")
    axes.legend(fontsize=7)
