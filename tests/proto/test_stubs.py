"""The committed stubs are what the .proto files give, and nothing hides the namespace's roots."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "proto"
GENERATORS = ROOT / ".venv-proto" / "bin" / "python"
BUF = Path(sys.executable).parent / "buf"
PATTERNS = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def needed() -> list[str]:
    """What `proto/generate.py` says that it needs."""
    header = (PROTO / "generate.py").read_text().split("# ///")[1].splitlines()[1:]
    given: list[str] = tomllib.loads("\n".join(line.removeprefix("# ") for line in header))["dependencies"]
    return given


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the pinned generators: the one beside the project, or one made for this test."""
    if GENERATORS.exists():
        return GENERATORS
    made = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", made], check=True)
    subprocess.run([made / "bin" / "python", "-m", "pip", "install", "--quiet", *needed()], check=True)
    return made / "bin" / "python"


def stubs(folder: Path) -> dict[str, bytes]:
    """Generated files by their path in a folder."""
    found = (path for pattern in PATTERNS for path in folder.glob(f"kvlease/**/{pattern}"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_stubs_are_what_the_generators_make(python: Path, tmp_path: Path) -> None:
    subprocess.run([python, PROTO / "generate.py", tmp_path], check=True, capture_output=True)

    made, committed = stubs(tmp_path), stubs(PROTO)

    assert made
    assert made.keys() == committed.keys()
    assert [name for name in made if made[name] != committed[name]] == []


def test_the_api_keeps_the_rules_of_buf() -> None:
    linted = subprocess.run([BUF, "lint", PROTO], capture_output=True, text=True, check=False)

    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize("root", ["proto", "clients", "services", "connector"])
def test_no_root_of_the_namespace_is_a_package(root: str) -> None:
    """One `__init__.py` there would hide the other roots' packages."""
    assert (ROOT / root / "kvlease").is_dir()
    assert not (ROOT / root / "kvlease" / "__init__.py").exists()
    assert not (ROOT / root / "kvlease" / "py.typed").exists()
