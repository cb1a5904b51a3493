"""Every block of docs/grpcurl.md is run by the real grpcurl, and answers what is printed below it."""

from pathlib import Path

import pytest

from kvlease.local.ports import free
from kvlease.v1 import registry_pb2, router_pb2
from tests.cookbook.document import run, steps, unlike

STEPS = steps(Path(__file__).parents[2] / "docs" / "grpcurl.md")
PORTS = ("7440", "7441", "8440", "8100", "8200")

# The document starts everything on the default ports, and for a machine that is not busy.
PRELUDE = """
export KVLEASE_REGISTRY=127.0.0.1:7440 KVLEASE_ROUTER=127.0.0.1:7441 KVLEASE_WAIT=5s GRPC_VERBOSITY=ERROR
exec 3>services.log
kvlease-registry() { command kvlease-registry --listen 127.0.0.1:7440 "$@" >&3 2>&3; }
kvlease-router() { command kvlease-router --listen 127.0.0.1:7441 --wait 5s "$@" >&3 2>&3; }
kvlease-gateway() { command kvlease-gateway --listen 127.0.0.1:8440 --wait 5s "$@" >&3 2>&3; }
kvlease() { command kvlease "$@" >&3 2>&3; }
"""


def moved(text: str, ports: dict[str, str]) -> str:
    """The text with other ports."""
    for port, other in ports.items():
        text = text.replace(f":{port}", f":{other}").replace(f"--port {port}", f"--port {other}")
    return text


def test_every_block_answers_what_is_printed_below_it(tmp_path: Path) -> None:
    ports = dict(zip(PORTS, map(str, free(len(PORTS))), strict=True))
    answers = run([moved(x.commands, ports) for x in STEPS], tmp_path, prelude=moved(PRELUDE, ports), within=120)

    logs = (tmp_path / "services.log").read_text()[-2000:]
    assert len(answers) == len(STEPS), logs
    for step, answer in zip(STEPS, answers, strict=True):
        assert step.answer, f"no answer is printed below {step.commands}"
        wrong = unlike(moved(step.answer, ports), answer)
        assert not wrong, f"{step.commands}{wrong}\n{logs}"


@pytest.mark.parametrize(
    "method",
    [
        f"{service.full_name}/{method.name}"
        for file in (registry_pb2, router_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ],
)
def test_every_method_is_called(method: str) -> None:
    assert any(f"{method}\n" in step.commands or f"{method} " in step.commands for step in STEPS)
