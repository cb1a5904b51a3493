"""What `pip install kvlease`, without extras, puts on the PATH."""

import subprocess
import sys
from pathlib import Path

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


def test_who_changes_their_mind_during_the_imports_sees_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise KeyboardInterrupt")  # as Ctrl-C does there
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from kvlease import programs; sys.exit(programs.router())"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (130, "")
