"""A whole comparison: stack after stack served, held conversations with, and ended; then the table and the pictures.

Two stacks seldom fit on one machine at the same time. Each of them also computes all prompts anew, in turn with what
it reuses, so that what differs between the stacks' turns is seen not to come from the machine.
"""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.multiturn import aside, options, plot, results, summary
from benchmarks.multiturn.idle import Scene, idle
from benchmarks.multiturn.pressure import press
from benchmarks.multiturn.results import Log
from benchmarks.multiturn.stacks import Stack, prepare, running
from benchmarks.multiturn.sweep import legs_of, session, sweep

SWEEP, IDLE, PRESSURE = "sweep", "idle", "pressure"
LEGS = (SWEEP, IDLE, PRESSURE)
_TOLERANCES = {"float32": 1e-3, "bfloat16": 0.25}  # of log-probabilities, by the type of the model's numbers

Say = Callable[[str], None]


def compare(args: argparse.Namespace, say: Say) -> Path:
    """Does all that was asked for with every stack; gives the file of the run. Raises as `running` and the legs do."""
    prepared = [prepare(options.serving(args, stack), logs=args.logs) for stack in args.stacks]
    log = begin(args, [each.stack for each in prepared])
    for each in prepared:
        say(f"starting {each.stack.name}; logs are in {args.logs / each.stack.name}")
        with running(each, say=say) as stack:
            asyncio.run(hold_all(args, [stack], args.legs, log, say))
    return log.file


def begin(args: argparse.Namespace, stacks: Sequence[Stack]) -> Log:
    """Begins the file of a run."""
    name = args.name or stacks[0].model
    log = Log(results.new_file(args.results, name))
    log.begin(stacks, name=name)
    return log


async def hold_all(args: argparse.Namespace, stacks: Sequence[Stack], legs: Sequence[str], log: Log, say: Say) -> None:
    """Holds conversations of the kinds asked for with stacks that are there, side by side where they are timed."""
    async with session() as http:
        every = [leg for stack in stacks for leg in legs_of(stack, http)]
        if SWEEP in legs:
            await sweep(every, options.plan(args), add=log.add, say=say)
        for leg in [leg for leg in every if leg.reuses]:  # pressure last: stock's pool stays full for some minutes
            if IDLE in legs:
                scene = Scene(args.idle_conversations, args.idle_length, args.idle, leg.stack.facts["haste"])
                await idle(leg, scene, add=log.add, say=say)
            if PRESSURE in legs:
                length, arrivals, patience = args.pressure_length, args.arrivals, args.bound
                await press(leg, length=length, arrivals=arrivals, patience=patience, add=log.add, say=say)


def report(file: Path, *, pictures: Path, tolerance: float | None, say: Say) -> None:
    """Says what a run showed, and draws it; a tolerance of None is the one that fits the model."""
    head, *seen = results.read(file)
    turns = results.turns(seen)
    if turns:
        say(summary.table(turns))
        say("drawn: " + ", ".join(map(str, plot.draw(turns, pictures, title=head["name"]))))
    for line in (*summary.verdicts(turns, tolerance=tolerance or _fitting(head)), *aside.verdicts(seen)):
        say(line)


def _fitting(head: Mapping[str, Any]) -> float:
    facts = next(iter(head["stacks"].values()))
    config = facts.get("model", {}).get("config", {})
    return _TOLERANCES.get(config.get("dtype") or config.get("torch_dtype"), _TOLERANCES["bfloat16"])
