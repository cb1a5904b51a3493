"""A vLLM that was not tested is refused in words, before anything that it may not have is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOAD = "import kvlease.connector.nixl"
BASE = Path("vllm/distributed/kv_transfer/kv_connector/v1/base.py")


def loaded(folder: Path, version: str) -> str:
    """Loads the connector into a vLLM of *version* that has none of NIXL's modules; returns what it dies of."""
    path = folder / BASE
    path.parent.mkdir(parents=True)
    for parent in path.parents[:5]:
        (parent / "__init__.py").touch()
    path.touch()
    (folder / "vllm/__init__.py").write_text(f"__version__ = {version!r}")
    run = subprocess.run(
        [sys.executable, "-c", LOAD],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stderr.splitlines()[-1]


@pytest.mark.parametrize("version", ["0.25.1", "0.34.0", "1.0.0", "dev"])
def test_a_vllm_that_was_not_tested_is_refused_in_words(tmp_path: Path, version: str) -> None:
    said = loaded(tmp_path, version)

    assert f"UnsupportedVllmError: kvlease supports vLLM 0.26 to 0.33, not {version}: install one of these" in said


@pytest.mark.parametrize("version", ["0.26.0", "0.33.1", "0.32.0+cpu", "0.33.1rc1"])
def test_a_vllm_that_was_tested_is_not_refused(tmp_path: Path, version: str) -> None:
    assert "UnsupportedVllmError" not in loaded(tmp_path, version)
