"""Reads a page as people do: runs its blocks one after the other, in one shell and a folder of its own.

What cannot be run is checked instead: `stand_ins.sh` says which commands, and leaves them to `checked.py`.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tests.docs.blocks import Block
from tests.docs.checked import Command, check
from tests.docs.place import Place

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
SHELL, PROGRAM, DATA = "sh", "python", "json"
SHOWN = {"mermaid": "a picture, which browsers draw"}
_ASIDE = re.compile(r" &( +#.*)?\n")
_WITHIN = 240.0  # seconds, on a busy machine


def read(blocks: Iterable[Block], folder: Path, place: Place, *, before: str = "", ahead: str = "") -> list[Command]:
    """Runs blocks; fails where one does, and where what cannot be run is wrong. Gives the commands that were checked.

    *before* is a script that the reader's machine has behind it, *ahead* defines what else stands in for commands.
    """
    (folder / "checks").mkdir()
    steps = [f"source {HERE / 'stand_ins.sh'}", ahead, before, *(_step(x, folder, place) for x in blocks)]
    script = "\n".join([*steps, "echo read >read"])
    _shell(script, folder, place.environment)
    commands = [Command.of(file.read_text()) for file in sorted((folder / "checks").iterdir())]
    for command in commands:
        check(command, folder)
    return commands


def _step(block: Block, folder: Path, place: Place) -> str:
    """The part of the script that runs a block."""
    text = place.moved(block.text)
    where = f"{block.page.name}:{block.line}"
    match block.language:
        case "sh":
            run = _ASIDE.sub("\n", text.replace(".venv/bin/", ""))  # what serves goes aside by itself
        case "python":
            program = folder / f"line-{block.line}.py"
            program.write_text(text)
            run = f'"$PYTHON" -m tests.docs.program {program}'
        case "json":
            json.loads(text)
            run = ""
        case language:
            assert language in SHOWN, f"{where}: nothing runs a block in {language or 'no language'}"
            run = ""
    return f"BLOCK={shlex.quote(where)}\n{run}"


def _shell(script: str, folder: Path, environment: dict[str, str]) -> None:
    bin_folder = Path(sys.executable).parent
    given = environment | {
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "ROOT": str(ROOT),
    }
    log = folder / "said.log"
    with log.open("wb") as said:
        shell = subprocess.Popen(
            ["bash", "-c", script], cwd=folder, env=given, stdout=said, stderr=said, start_new_session=True
        )
        try:
            shell.wait(_WITHIN)
        finally:
            with suppress(ProcessLookupError):  # nothing was left to run
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    assert (folder / "read").exists(), log.read_text()[-4000:]
