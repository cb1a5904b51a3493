"""A document of shell blocks and their answers, and a shell in which they are run."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import blocks

ANYTHING = "…"
_LATE = ('"leased_blocks"', '"free_blocks"')  # an engine may have told of a block that is free again, or not yet
_END = "-- end of block --"


@dataclass(frozen=True, slots=True)
class Step:
    """A block of commands, and what it is said to answer; empty if nothing is."""

    commands: str
    answer: str


def steps(page: Path) -> list[Step]:
    """The blocks of a page in their order; a block that is no shell is the answer to the one before."""
    found: list[Step] = []
    for block in blocks(page):
        if block.language == "sh":
            found.append(Step(block.text, ""))
        else:
            assert not found[-1].answer, f"{page.name}:{block.line}: two answers to one block"
            found[-1] = Step(found[-1].commands, block.text)
    return found


def run(commands: Sequence[str], folder: Path, *, prelude: str, within: float) -> list[str]:
    """What each block printed, run one after the other in one shell; its background jobs end with it.

    Raises:
        TimeoutExpired: they took longer than `within` seconds, all together.
    """
    script = "\n".join([prelude, *(f"{block}\necho; echo '{_END}'" for block in commands), "kill $(jobs -p)"])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    ) as shell:
        try:
            said, _ = shell.communicate(timeout=within)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
    return said.split(f"{_END}\n")[:-1]


def unlike(told: str, answered: str) -> str:
    """The first line of an answer that is not as told; empty when all are. How JSON is spaced does not matter."""
    lines, others = _lines(told), _lines(answered)
    for line, other in zip(lines, others, strict=False):
        pattern = ".*".join(re.escape(part) for part in line.split(ANYTHING))
        if not re.fullmatch(pattern, other):
            return f"told {line}, answered {other}"
    return "" if len(lines) == len(others) else f"told {len(lines)} lines, answered {len(others)}: {answered}"


def _lines(text: str) -> list[str]:
    joined = re.sub(r"\{\s*\}", "{}", text)
    squeezed = (re.sub(r"\s", "", line) for line in joined.splitlines())
    return [line for line in squeezed if line and not line.startswith(_LATE)]
