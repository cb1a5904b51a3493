"""What docs/security.md says to do works as printed, but for the ports."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from ssl import create_default_context

import yaml

from kvlease.local.ports import free
from kvlease.rpc import Role, keys
from kvlease.rpc.credentials import role_of
from tests.docs.blocks import blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
WITHIN = 60.0  # seconds; four processes on a busy machine


def placed(text: str, registry: int, router: int, gateway: int) -> str:
    """Puts ports of this run where the page has the default ones."""
    calls = f"--registry 127.0.0.1:{registry}"
    for command, options in (
        ("kvlease-registry", f"--listen 127.0.0.1:{registry}"),
        ("kvlease-router", f"--listen 127.0.0.1:{router} {calls}"),
        ("kvlease-gateway", f"--listen 127.0.0.1:{gateway} --router 127.0.0.1:{router} {calls}"),
        ("kvlease engines", calls),
    ):
        text = text.replace(command, f"{command} {options}")
    return text.replace("localhost:8440", f"localhost:{gateway}").replace("localhost:7440", f"localhost:{registry}")


@contextmanager
def shell(script: str, folder: Path) -> Iterator[None]:
    """Runs a script with all that it starts; ends it all."""
    running = subprocess.Popen(["bash", "-c", f"{script}\nwait"], cwd=folder, env=ENVIRONMENT, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def test_it_can_be_turned_on_as_told(tmp_path: Path) -> None:
    first, second = written("sh")
    ports = free(3)
    with shell(placed(first, *ports), tmp_path):
        wait_for(f"https://localhost:{ports[2]}/metrics", tmp_path / "certs" / "ca.pem")

        script = placed(second, *ports).replace("\ncurl ", "\ncurl -sf ")
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "api.key").stat().st_mode & 0o077
    assert "ENGINE" in done.stdout
    assert '"object":"list"' in done.stdout


def test_the_keys_file_is_one() -> None:
    (text,) = written("toml")

    known = keys.parse(text, "keys.toml")

    assert known.limits_of("team-a").concurrent == 200
    assert known.limits_of("other").rate == 5.0


def test_the_certificate_is_one_that_cert_manager_makes_for_an_engine() -> None:
    (text,) = written("yaml")
    told = yaml.safe_load(text)

    assert (told["apiVersion"], told["kind"]) == ("cert-manager.io/v1", "Certificate")
    assert [role_of(name) for name in told["spec"]["uris"]] == [(Role.ENGINE, "d0")]
    assert {"client auth", "server auth"} < set(told["spec"]["usages"])


def test_no_block_is_left_out() -> None:
    assert {block.language for block in blocks(PAGE)} == {"sh", "toml", "yaml"}


def written(language: str) -> list[str]:
    """The page's blocks in a language."""
    return [block.text for block in blocks(PAGE) if block.language == language]


def wait_for(url: str, ca: Path) -> None:
    """Waits until a server with a certificate of that authority answers."""
    ends = time.monotonic() + WITHIN
    while True:
        try:
            with urllib.request.urlopen(url, context=create_default_context(cafile=ca), timeout=5):  # noqa: S310
                return
        except OSError:  # nobody listens yet, or the authority has not been made
            assert time.monotonic() < ends, f"{url} does not answer"
            time.sleep(0.1)
