"""The Python environments of a checkout: one to work in, one for the pinned generator of the stubs."""

import json
import tomllib
from typing import Any

from tools.checkout import ROOT, VENV, environment, once, pip

_VENV_PROTO = ROOT / ".venv-proto"


def dev() -> None:
    """Installs kvlease itself, editable, and what its tests and linters need."""

    def act() -> None:
        environment(VENV)
        pip(VENV, "--editable", ".[cli,redis]", "--group", "dev")

    once("kvlease with its test and lint tools", VENV / ".made-dev", _requirements(), act)


def proto() -> None:
    """Installs what `proto/generate.py` needs: older than the rest, so that old protobuf loads the stubs."""

    def act() -> None:
        environment(_VENV_PROTO)
        pip(_VENV_PROTO, "--group", "proto")

    once("the generator of the stubs", _VENV_PROTO / ".made-proto", _requirements(), act)


def _requirements() -> list[str]:
    """All that pyproject.toml says about what is installed, and where: a copied environment does not work."""
    whole: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    told = [
        str(ROOT),
        whole["project"],
        whole["dependency-groups"],
        whole["tool"]["hatch"]["build"],
        whole["build-system"],
    ]
    return [json.dumps(told, sort_keys=True)]
