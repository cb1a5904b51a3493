"""Where an unpacked vLLM for CPU lies, and whether what it needs is there."""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("0.29.0", "0.32.0")  # those whose CPU build is served here
DEFAULT = "0.29.0"  # the reference: what is measured, and compared with stock, is measured on this one
_CHECKOUT = Path(__file__).resolve().parents[3]
_NEEDED = ("torch", "transformers", "nixl", "kvlease.v1")


class EngineUnavailable(Exception):
    """vLLM cannot be started here; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Installation:
    """One version of vLLM, beside the environment rather than in it: all versions share the environment."""

    version: str
    folder: Path


def find(version: str, *, engines: Path | None = None) -> Installation:
    """The installation of a version, under `engines`, `$KVLEASE_ENGINES` or the checkout's `.engines`.

    Raises:
        EngineUnavailable: it, or something it needs, is missing.
    """
    if version not in VERSIONS:
        raise EngineUnavailable(f"vLLM {version} is not served on CPU here: choose one of {', '.join(VERSIONS)}")
    home = engines or Path(os.environ.get("KVLEASE_ENGINES") or _CHECKOUT / ".engines")
    folder = home / f"vllm-{version}"
    if not (folder / "vllm").is_dir():
        raise EngineUnavailable(f"vLLM {version} is not at {folder}: run `make setup`, or set KVLEASE_ENGINES")
    missing = [name for name in _NEEDED if not _importable(name)]
    if missing:
        raise EngineUnavailable(f"this Python lacks {', '.join(missing)}, which engines need: run `make setup`")
    return Installation(version, folder)


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
