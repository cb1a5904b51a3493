"""Checks commands of pages that are not run where pages are read, and says why they are not."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from benchmarks.multiturn.__main__ import parser as multiturn
from kvlease.cli.__main__ import parser as cli
from kvlease.connector.settings import Settings
from tests.faults.__main__ import parser as faults
from tests.faults.soak import parser as soak

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Command:
    """A command, the block that it stands in, and the environment that it was called with."""

    block: str
    words: Sequence[str]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, record: str) -> "Command":
        """Reads what `checked` of stand_ins.sh wrote."""
        block, count, *rest = record.removesuffix("\0").split("\0")
        variables = dict(line.split("=", 1) for line in rest[int(count) :])
        return cls(block, rest[: int(count)], variables)


Check = Callable[[Command, Path], object]
"""Fails for a command that would; is told in which folder it was called."""


def check(command: Command, folder: Path) -> None:
    """Checks a command. Whoever writes another one into a page decides here, or in stand_ins.sh, how it is tested."""
    CHECKS[command.words[0]](command, folder)


def _kvlease(command: Command, _folder: Path) -> None:
    """`up --engines cpu`, which takes a minute: tests/local/test_real.py runs README's. The options can be read."""
    cli().parse_args(command.words[1:])


def _make(command: Command, _folder: Path) -> None:
    """Targets that take from minutes to an hour, and are what CI runs or has run: there are such targets."""
    variables = dict(word.split("=", 1) for word in command.words[1:] if "=" in word)
    targets = [word for word in command.words[1:] if "=" not in word]
    subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, check=True, capture_output=True)
    faults().parse_args(variables.pop("FAULTS", "").split())
    assert not variables


def _pip(command: Command, _folder: Path) -> None:
    """Installs, which needs an environment to spoil: it installs a checkout, with extras that there are."""
    _, install, what = command.words
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.fullmatch(r"\.(?:\[([\w,]+)\])?", what)

    assert install == "install"
    assert named, what
    assert set(filter(None, (named[1] or "").split(","))) <= set(extras)


def _python(command: Command, _folder: Path) -> None:
    """Benchmarks on GPUs, and soaks of minutes, which other tests run in small: the options can be read."""
    _, flag, module, *options = command.words
    assert flag == "-m"
    {"benchmarks.multiturn": multiturn, "tests.faults.soak": soak}[module]().parse_args(options)


def _vllm(command: Command, _folder: Path) -> None:
    """Engines with models of one's own; vLLM's parser reads the same in test_vllm.py. The connector takes all of it."""
    config = json.loads(command.words[command.words.index("--kv-transfer-config") + 1])
    settings = Settings.of(config["kv_connector_extra_config"], command.environment)

    assert config["kv_connector_module_path"] == "kvlease.connector.nixl"
    assert config["kv_connector"] == "NixlConnector"
    assert config["kv_role"] in ("kv_producer", "kv_consumer")
    assert settings.bidirectional
    assert settings.http_url == command.environment["KVLEASE_HTTP_URL"]


def _compose(command: Command, _folder: Path) -> None:
    """tests/deploy/test_compose.py runs it where Docker does: there are such services, and the file can be read."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    scaled = {word.partition("=")[0] for word in command.words if "=" in word}

    assert command.words[1] == "up"
    assert scaled <= set(services)
    if shutil.which("docker-compose"):
        subprocess.run(["docker-compose", "config", "--quiet"], cwd=ROOT, check=True, capture_output=True)


def _kubectl(command: Command, _folder: Path) -> None:
    """A cluster: what is applied is there, and fits the schemas of Kubernetes."""
    _, where, apply, flag, folder = command.words
    documents = list(_kustomized(Path(where) / folder))

    assert (apply, flag) == ("apply", "-k")
    assert documents
    for document in documents:
        kubernetes_validate.validate(document, "1.35", strict=True)


def _kustomized(folder: Path) -> list[Any]:
    """All documents of a kustomization and of those that it is made of."""
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    found: list[Any] = []
    for each in (folder / name for name in told["resources"]):
        found += _kustomized(each) if each.is_dir() else yaml.safe_load_all(each.read_text())
    return found


CHECKS: Mapping[str, Check] = {
    "docker-compose": _compose,
    "kubectl": _kubectl,
    "kvlease": _kvlease,
    "make": _make,
    "pip": _pip,
    "python": _python,
    "vllm": _vllm,
}
