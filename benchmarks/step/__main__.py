"""Measures in a process that has vLLM on its path, started by `benchmarks.step`; a line of JSON for each result."""

import argparse
import gc
import json
import logging
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import structlog

from benchmarks.sample import turns
from benchmarks.step.engine import Engine
from benchmarks.step.own import Own
from benchmarks.step.scene import DECODE, MOST_LEASES, NOBODY, PREFILL, Scene, lease, play

STOCK, KVLEASE, OWN = "stock", "kvlease", "own"
SETTLED = 0.2  # of all requests: until then memory may grow


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--registry", required=True)
    for name in ("rounds", "steps", "requests"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for leases in (0, 100, 1000):
        for waiting in (NOBODY, DECODE, PREFILL):
            for result in _compare(args, Scene(leases, waiting)):
                _tell(leases=leases, waiting=waiting, **result)
    _tell(memory=_memory(args))


def _compare(args: argparse.Namespace, scene: Scene) -> Iterator[dict[str, Any]]:
    """Both engines in one scene, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        engines = {name: _engine(args, folder, ours=name == KVLEASE) for name in (STOCK, KVLEASE)}
        try:
            for name, engine in engines.items():
                play(engine, scene, ours=name == KVLEASE)
            gc.collect()
            gc.freeze()  # as vLLM does once it has started
            for name in turns((STOCK, KVLEASE), args.rounds):
                steps = [engines[name].step(time.perf_counter) for _ in range(args.steps)]
                yield {"of": name, "us": statistics.median(steps) * 1e6}
            with Own() as own:
                for _ in range(args.rounds):
                    yield {
                        "of": OWN,
                        "us": statistics.median(own.of(engines[KVLEASE].step) for _ in range(args.steps)) * 1e6,
                    }
        finally:
            for engine in engines.values():
                engine.close()
            gc.unfreeze()


def _memory(args: argparse.Namespace) -> list[tuple[int, int]]:
    """Requests that came and went, and the bytes that the process held then."""
    held: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        engine = _engine(args, folder, ours=True)
        try:
            for first in range(0, args.requests, 100):
                lease(engine, 100, first=first)
                while engine.leasing._owner.leases > MOST_LEASES + 200:  # noqa: SLF001 - the registry is behind
                    time.sleep(0.001)
                    engine.step()
                if first + 100 >= SETTLED * args.requests and (first + 100) % (args.requests // 20) == 0:
                    gc.collect()
                    held.append((first + 100, _resident()))
        finally:
            engine.close()
    return held


def _engine(args: argparse.Namespace, folder: str, *, ours: bool) -> Engine:
    mine = {
        "kvlease_registry": args.registry,
        "kvlease_router": args.registry,
        "kvlease_http_url": f"http://{args.registry}",
    }
    engine = Engine(Path(folder), ours=ours, extra=mine if ours else {})
    while ours and not engine.leasing._link.connected:  # noqa: SLF001
        time.sleep(0.01)
    return engine


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _tell(**result: Any) -> None:
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
