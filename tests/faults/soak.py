"""Many conversations on simulated engines while everything around them fails: `python -m tests.faults.soak`.

Prints a line per fault, the figures, and a last line `soak: ok` or `soak: broken ...`; exits 1 if a rule was broken.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import aiohttp

from kvlease.rpc.options import length
from kvlease.sim.conversations.driver import Driver
from kvlease.sim.conversations.plan import Plan
from kvlease.sim.conversations.record import Record
from tests.faults.troubles import ALL, Act, Scene, Trouble, troubles
from tests.faults.verdict import Verdict, judge
from tests.faults.world import Size, World

SETTLE = 100.0  # seconds: leases of which nobody heard the end expire, and blocks of hung reads leave quarantine
TTL = 60.0  # seconds that leases live
WARM = 10.0  # seconds without faults at the beginning
COOL = 8.0  # seconds without new faults at the end
ENGINE = ("--blocks", "16384", "--token-time", "20ms", "--log-format", "json")


async def soak(
    plan: Plan, size: Size, logs: Path, acts: Sequence[Act] = ALL, *, gap: float = 8.0, warm: float = WARM
) -> Verdict:
    """Runs *plan* on such engines while *acts* are done to them, waits for all to be freed, and judges."""
    world = World(size, logs)
    records: list[Record] = []
    done: list[Trouble] = []
    with world.running():
        driver = Driver(plan, world.gateway_url, tell=records.append)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http:
            scene = Scene(world, http, random.Random(plan.seed))
            harm = asyncio.create_task(_harm(scene, acts, driver, done, last=_length(plan) - COOL, gap=gap, warm=warm))
            await driver.run()
            await harm
        held = await world.settle(SETTLE)
    _write(logs, records, done)
    return judge(records, done, wrong_in_engines=world.wrong_answers(), held=held)


async def _harm(
    scene: Scene, acts: Sequence[Act], driver: Driver, done: list[Trouble], *, last: float, gap: float, warm: float
) -> None:
    async for trouble in troubles(scene, acts, driver.now, first=warm, last=last, gap=gap):
        done.append(trouble)
        print(f"{trouble.begun:7.1f} s  {trouble.kind:16} {trouble.victim}", flush=True)  # noqa: T201


def _acts(text: str) -> list[Act]:
    known = {act.__name__: act for act in ALL}
    if unknown := set(names := text.split(",")) - set(known):
        raise argparse.ArgumentTypeError(f"there is no {unknown.pop()}; there are {', '.join(known)}")
    return [known[name] for name in names]


def _length(plan: Plan) -> float:
    if plan.duration is None:
        raise ValueError("a soak needs a duration")
    return plan.duration


def _write(logs: Path, records: Sequence[Record], done: Sequence[Trouble]) -> None:
    for name, items in (("turns", records), ("faults", done)):
        lines = (json.dumps(asdict(item)) + "\n" for item in items)
        (logs / f"{name}.jsonl").write_text("".join(lines))


def main() -> int:
    """Returns 1 if a rule was broken."""
    given = parser().parse_args()
    plan = Plan(
        conversations=1_000_000,  # as many as there is time for
        concurrent=given.conversations,
        think=given.think,
        ramp=min(given.think, given.duration / 4),
        duration=given.duration,
        aborts=given.aborts,
        tools=0.1,
        patience=60.0,
        seed=given.seed,
    )
    logs = given.logs or Path(tempfile.mkdtemp(prefix="kvlease-soak-"))
    logs.mkdir(parents=True, exist_ok=True)
    size = Size(given.prefill, given.decode, ENGINE, TTL, given.wait)
    verdict = asyncio.run(soak(plan, size, logs, given.faults))
    print(json.dumps(verdict.figures, indent=2), f"logs: {logs}", sep="\n")  # noqa: T201
    print("soak:", f"broken: {'; '.join(verdict.broken)}" if verdict.broken else "ok")  # noqa: T201
    return int(bool(verdict.broken))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    made.add_argument("--duration", type=length, default="5m", metavar="TIME")
    made.add_argument("--conversations", type=int, default=1000, metavar="N", help="at a time")
    made.add_argument("--think", type=length, default="15s", metavar="TIME", help="mean time between turns")
    made.add_argument("--aborts", type=float, default=0.03, metavar="SHARE", help="of turns whose client leaves")
    made.add_argument("--prefill", type=int, default=2, metavar="N")
    made.add_argument("--decode", type=int, default=4, metavar="N")
    made.add_argument("--wait", type=length, default="1s", metavar="TIME", help="for the control plane's answers")
    made.add_argument("--faults", type=_acts, default=ALL, metavar="KIND[,KIND]", help="these alone")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--logs", type=Path, help="folder; a temporary one if none is named")
    return made


if __name__ == "__main__":
    sys.exit(main())
