"""`python -m benchmarks.table.worker LEASES`: measures one size in a process of its own; prints JSON."""

import gc
import json
import random
import resource
import sys
import time
from pathlib import Path

from benchmarks.sample import percentile
from benchmarks.table.world import World
from kvlease.registry.lease import EngineRef
from kvlease.registry.session import Credential
from kvlease.rpc import collector
from kvlease.rpc.logging import configure

ENGINES = 200
CLAIMS = 20_000
BEATS = 500
EXPIRING = 10_000
LIFE = 1e5
SOON = 30.0


def main(leases: int) -> dict[str, float]:
    """Fills a table, and uses it."""
    configure()
    collector.settle()
    world = World()
    engines = [world.engine(f"engine-{i}") for i in range(min(ENGINES, leases))]
    before, own, begun = _memory(), 0, time.perf_counter()
    for ref, credential in engines:
        own += world.hold(ref, credential, leases // len(engines), LIFE)
    filled = time.perf_counter() - begun
    gc.collect()
    bytes_each = (_memory() - before - own) / leases
    gc.freeze()
    return {
        "leases": leases,
        "seconds to fill": filled,
        "bytes a lease": bytes_each,
        **_claims(world, engines, leases),
        **_heartbeats(world),
        **_expiry(world, engines),
    }


def _claims(world: World, engines: list[tuple[EngineRef, Credential]], leases: int) -> dict[str, float]:
    for _, credential in engines:
        world.beat(credential)
        world.beat(credential)
    drawn = random.Random(1)  # noqa: S311 - the same in every run
    took = [world.claim(engines[0][1], drawn.randrange(leases))[0] for _ in range(min(CLAIMS, 20 * leases))]
    return {"claim p50, us": percentile(took, 0.5) * 1e6, "claim p99, us": percentile(took, 0.99) * 1e6}


def _heartbeats(world: World) -> dict[str, float]:
    few, many = world.engine("few"), world.engine("many")
    world.hold(*few, 10, LIFE)
    world.hold(*many, 10_000, LIFE)
    for _ in range(50):
        world.beat(few[1])
        world.beat(many[1])
    of_few, of_many = [], []
    for _ in range(BEATS):
        of_few.append(world.beat(few[1]))
        of_many.append(world.beat(many[1]))
    world.close(few[1])
    world.close(many[1])
    return {
        "heartbeat with 10 leases, us": percentile(of_few, 0.5) * 1e6,
        "heartbeat with 10,000, us": percentile(of_many, 0.5) * 1e6,
    }


def _expiry(world: World, engines: list[tuple[EngineRef, Credential]]) -> dict[str, float]:
    """Lets many leases end at one moment; other calls come all the time."""
    ref, credential = engines[0]
    world.hold(ref, credential, EXPIRING, SOON)
    for _ in range(3):
        world.passes(SOON / 3 - 0.1)
        for _, each in engines:
            world.beat(each)
    world.now += 1.0  # all at once, as after a pause
    other = engines[-1][1]
    waits = [world.beat(other) for _ in range(2_000)]
    return {
        "longest pause while 10,000 expire, ms": max(waits) * 1e3,
        "of those calls, p50, ms": percentile(waits, 0.5) * 1e3,
    }


def _memory() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
