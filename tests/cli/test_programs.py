"""What `pip install kvlease`, without extras, puts on the PATH."""

import subprocess
import sys

import pytest

MISSING = "import sys; sys.argv = ['it', '--help']; sys.modules[{package!r}] = None; from kvlease import programs; "


@pytest.mark.parametrize(
    ("program", "package", "extra"),
    [
        ("kvlease", "grpc_health", "cli"),
        ("registry", "uvloop", "services"),
        ("router", "prometheus_client", "services"),
        ("gateway", "httptools", "gateway"),
    ],
)
def test_the_extra_that_is_missing_is_named(program: str, package: str, extra: str) -> None:
    code = MISSING.format(package=package) + f"sys.exit(programs.{program}())"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert done.stderr == f"it: {package} is not installed: pip install 'kvlease[{extra}]'\n"


def test_with_the_extra_it_runs() -> None:
    code = "import sys; sys.argv = ['it', '--version']; from kvlease import programs; sys.exit(programs.kvlease())"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0
    assert done.stdout.startswith("kvlease ")
