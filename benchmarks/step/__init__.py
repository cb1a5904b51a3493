"""What the connector costs vLLM's scheduling loop, against stock's connector: no model, only the scheduler's own work.

A step of a real engine takes longer by the run of its model, so the share told here is the largest there can be.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.catalogue import Options, Unavailable
from benchmarks.figure import Figure
from benchmarks.picture import draw
from benchmarks.report import ROOT, Report
from benchmarks.sample import Samples
from kvlease.local import install, ports
from kvlease.local.process import Process

SUMMARY = "the connector in vLLM's scheduling loop, against stock's"
STOCK, KVLEASE, OWN = "stock", "kvlease", "own"
CONTENDERS = (STOCK, KVLEASE, OWN)


def run(options: Options) -> Report:
    """Measures on the reference version of vLLM, with a registry beside it."""
    samples: Samples[tuple[int, str, str]] = Samples()
    memory: list[tuple[int, int]] = []
    for said in _measured(options):
        if "memory" in said:
            memory = said["memory"]
        else:
            samples.add((said["leases"], said["waiting"], said["of"]), said["us"])
    scenes = sorted({(leases, waiting) for leases, waiting, _ in samples.of})
    ratios = {scene: samples.ratio((*scene, KVLEASE), (*scene, STOCK)) for scene in scenes}
    own = {scene: samples.median((*scene, OWN)) for scene in scenes}
    draw("step", lambda axes: _paint(axes, samples, scenes), folder=options.results)
    return Report(
        bench="step",
        columns=["leases", "who waits", *(f"{of}, us a step" for of in CONTENDERS), "of stock's"],
        rows=[[*scene, *(samples.median((*scene, of)) for of in CONTENDERS), ratios[scene]] for scene in scenes],
        figures=[
            Figure(text="a step's time, of stock's, at worst", value=max(ratios.values()), at_most=1.02),
            Figure(text="the connector's own time a step, at worst", value=max(own.values()), at_most=20.0, unit="us"),
            Figure(text=f"memory's growth over {_span(memory)} requests", value=_growth(memory), at_most=1.0, unit="%"),
        ],
        facts={"us": samples.facts(), "memory": memory},
        notes=(
            "32 requests decode; 64 of 24,000 tokens wait: on decode for prefill's KV, on prefill for a claim,",
            "in stock's column for their reads. A registry in another process keeps the leases alive.",
        ),
    )


def _measured(options: Options) -> Iterator[dict[str, Any]]:
    try:
        vllm = install.find(install.DEFAULT)
    except install.EngineUnavailable as error:
        raise Unavailable(str(error)) from error
    how = ("2", "20", "400") if options.smoke else ("41", "60", "100000")
    sizes = [text for pair in zip(("--rounds", "--steps", "--requests"), how, strict=True) for text in pair]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{vllm.folder}:{ROOT}",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        address = f"127.0.0.1:{ports.free(1)[0]}"
        command = [sys.executable, "-m", "kvlease.registry", "--listen", address, "--answered-ttl", "1h"]
        registry = Process("registry", command, log=Path(folder) / "registry.log", grace=2.0)
        registry.start()
        try:
            yield from _lines([sys.executable, "-m", "benchmarks.step", "--registry", address, *sizes], environment)
        finally:
            registry.stop()


def _lines(command: Sequence[str], environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - as asked for
        yield from map(json.loads, process.stdout)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _growth(memory: Sequence[tuple[int, int]]) -> float:
    """From the first third of the looks to the last: an allocator gives and takes some MiB between any two."""
    third = len(memory) // 3
    if not third:
        return float("nan")
    first, last = (median(held for _, held in part) for part in (memory[:third], memory[-third:]))
    return (last / first - 1) * 100


def _span(memory: Sequence[tuple[int, int]]) -> str:
    return f"{memory[-1][0] - memory[0][0]:,}" if memory else "no"


def _paint(axes: Any, samples: Samples[tuple[int, str, str]], scenes: Sequence[tuple[int, str]]) -> None:
    places = range(len(scenes))
    for shift, of in ((-0.2, STOCK), (0.2, KVLEASE)):
        axes.bar([x + shift for x in places], [samples.median((*scene, of)) for scene in scenes], 0.4, label=of)
    axes.set_xticks(list(places), [f"{leases:,} leases\n{waiting} waits" for leases, waiting in scenes], fontsize=7)
    axes.set(ylabel="µs", title="A step of vLLM's scheduler, without the model", ylim=(0, None))
    axes.legend()
