"""`kvlease doctor` on a deployment that runs, and on what is left of one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.sim_stack import SimStack, running


def doctor(stack: SimStack, *options: str) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "kvlease.cli", "doctor", "--gateway", stack.gateway, "--json", *options]
    done = subprocess.run(
        command, env=os.environ | stack.environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, json.loads(done.stdout)


def test_a_deployment_that_works_is_found_well_by_trying(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        code, findings = doctor(stack, "--timeout", "10s")

        assert code == 0
        assert {finding["level"] for finding in findings} == {"ok"}
        assert {finding["subject"] for finding in findings} >= {"trial", "side channel", "clocks", "http", "roles"}

        gateway = stack.gateway.removeprefix("http://")
        addresses = ("--registry", stack.environment["KVLEASE_ROUTER"], "--router", gateway)
        _, swapped = doctor(stack, *addresses, "--no-requests")
        told = {finding["subject"]: finding["what"] for finding in swapped}
        assert "is no registry, or an older one" in told["registry"]
        assert "is an HTTP server" in told["router"]

    code, findings = doctor(stack, "--timeout", "200ms", "--no-requests")
    assert code == 1
    assert [finding["subject"] for finding in findings if finding["level"] == "fail"] == [
        "registry",
        "router",
        "gateway",
    ]
