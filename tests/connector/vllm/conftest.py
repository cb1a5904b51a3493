"""Tests against vLLM's own classes: run once per version, with that version importable.

PYTHONPATH=.engines/vllm-0.32.0 python -m pytest tests/connector/vllm
"""

import importlib
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
WITHOUT = "vLLM is not importable: run these once per version, with PYTHONPATH=.engines/vllm-<version>"
FOUND = importlib.util.find_spec("vllm") is not None
THEIRS = pytest.mark.filterwarnings("ignore", r"error:::kvlease\..*", r"error:::tests\..*")

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
if FOUND:
    with warnings.catch_warnings():  # importing vLLM and torch is full of them
        warnings.simplefilter("ignore")
        importlib.import_module("kvlease.connector.nixl")


class Without(pytest.Module):
    """A test file that needs vLLM where there is none."""

    def collect(self) -> Iterator[Any]:
        pytest.skip(WITHOUT, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Says loudly that a file was not run."""
    return None if FOUND else Without.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests here; vLLM's own warnings are none of ours."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            item.add_marker(THEIRS)


if FOUND:
    from tests.connector.vllm.engine import Engine

    @pytest.fixture
    def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Engine]]:
        """Starts engines, and stops them after the test."""
        started: list[Engine] = []

        def make(**how: Any) -> Engine:
            started.append(Engine(tmp_path, monkeypatch, **how))
            return started[-1]

        yield make
        for engine in started:
            engine.stop()
