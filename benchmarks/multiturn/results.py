"""The file of a run: a first line of versions, flags and hardware; then one JSON object a line for each thing seen."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.multiturn.stacks import Stack

FOLDER = Path(__file__).resolve().parents[1] / "results"
_PACKAGES = ("torch", "nixl", "transformers", "grpcio", "protobuf", "aiohttp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request as client and engines saw it. What engines count is shared equally among concurrent requests."""

    kind: str = "turn"
    stack: str
    leg: str
    round: int
    conversation_id: str
    turn: int
    turns: int
    concurrency: int
    input_tokens: int
    reused_tokens: int  # read by prefill from decode
    ttft_ms: float | None  # None: the answer was not streamed
    elapsed_ms: float
    prefill_ms: float  # in prefill's engine, from arrival to end
    prefill_queued_ms: float  # of that, before its computation, reading included
    prefill_computing_ms: float
    kv_transfer_ms: float  # of prefill's read from decode
    kv_bytes: float
    decode_transfer_ms: float  # of decode's read from prefill
    decode_kv_bytes: float
    decode_queued_ms: float = 0.0  # in decode's engine, from arrival to its first step; of a client that left, unknown
    decode_computing_ms: float = 0.0  # from then to the first token, likewise
    tokens: list[int] = field(default_factory=list)  # of the answer
    logprobs: list[float] = field(default_factory=list)
    alternatives: list[dict[str, float]] = field(default_factory=list)


class Log:
    """A run's file, written line by line as things happen."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file

    def begin(self, stacks: Iterable[Stack], **options: Any) -> None:
        """Writes the first line, in place of whatever the file held."""
        head = {"kind": "run", **conditions(), "stacks": {stack.name: stack.facts for stack in stacks}, **options}
        self.file.write_text(json.dumps(head).replace(str(Path.home()), "~") + "\n")  # a result is for others to read

    def add(self, seen: "Turn | Mapping[str, Any]") -> None:
        with self.file.open("a") as file:
            file.write(json.dumps(asdict(seen) if isinstance(seen, Turn) else seen) + "\n")


def read(file: Path) -> list[dict[str, Any]]:
    """Every line of a run, the first included."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def turns(lines: Iterable[Mapping[str, Any]]) -> list[Turn]:
    return [Turn(**line) for line in lines if line["kind"] == "turn"]


def new_file(folder: Path, name: str) -> Path:
    return folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{name}.jsonl"


def conditions() -> dict[str, Any]:
    """When, with what, and on what."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": os.environ.get("KVLEASE_REVISION") or _output(["git", "rev-parse", "--short", "HEAD"]),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "hardware": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "gpus": _output(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]),
        },
        "environment": {name: value for name, value in os.environ.items() if name.startswith(("UCX_", "NCCL_"))},
        "command": sys.argv[1:],
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _output(command: Sequence[str]) -> str:
    """What a command says; nothing if it cannot be run here."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
