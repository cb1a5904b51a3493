"""Checks a command of a page without running it: `python -m tests.docs.checked COMMAND ...`."""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from kvlease.cli.__main__ import parser
from kvlease.connector.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


def kvlease(words: Sequence[str]) -> None:
    """The command line can be read; exits with 2 if not."""
    parser().parse_args(words)


def make(words: Sequence[str]) -> None:
    """The targets exist."""
    makefile = (ROOT / "Makefile").read_text()
    for target in words:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target


def pip(words: Sequence[str]) -> None:
    """The extras exist."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for named in re.findall(r"\.\[([\w,]+)\]", " ".join(words)):
        assert set(named.split(",")) <= set(extras), named


def vllm(words: Sequence[str]) -> None:
    """The transfer configuration names our connector, and its settings can be used."""
    config = json.loads(words[words.index("--kv-transfer-config") + 1])
    assert config["kv_connector_module_path"] == "kvlease.connector.nixl"
    assert config["kv_connector"] == "NixlConnector"
    assert config["kv_role"] in ("kv_producer", "kv_consumer")
    Settings.of(config["kv_connector_extra_config"], {})


CHECKS: dict[str, Callable[[Sequence[str]], None]] = {"kvlease": kvlease, "make": make, "pip": pip, "vllm": vllm}

if __name__ == "__main__":
    CHECKS[sys.argv[1]](sys.argv[2:])
