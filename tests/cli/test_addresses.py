"""What is to be called or listened on is checked before anything starts, whichever command it is."""

import socket
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from kvlease.cli.__main__ import main as kvlease
from kvlease.gateway.__main__ import main as gateway
from kvlease.registry.__main__ import main as registry
from kvlease.router.__main__ import main as router
from kvlease.rpc.probe import main as probe

Main = Callable[[Sequence[str]], int]


def code_of(main: Main, arguments: Sequence[str]) -> object:
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (registry, "--listen somewhere"),
        (registry, "--listen http://127.0.0.1:0"),
        (registry, "--store redis://host:port"),
        (registry, "--store redis://one:6379,redis://"),
        (registry, "--metrics 9090"),
        (router, "--registry somewhere"),
        (router, "--registry http://10.0.0.1:7440"),
        (router, "--registry 10.0.0.1:7440,somewhere:7440"),
        (gateway, "--registry 10.0.0.1:"),
        (gateway, "--router 10.0.0.1:99999"),
        (kvlease, "up --gateway somewhere"),
        (kvlease, "sim-engine --registry somewhere"),
        (kvlease, "sim-engine --router 10.0.0.1:0"),
        (kvlease, "engines --registry somewhere"),
        (kvlease, "leases --registry 10.0.0.1:7440,10.0.0.2"),
        (kvlease, "doctor --gateway http://"),
        (lambda words: probe(*words), "somewhere"),
    ],
)
def test_an_address_that_cannot_be_one_is_told_and_ends_with_2(
    main: Main, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(main, line.split()) == 2

    assert line.rpartition(",")[2].rpartition(" ")[2] in capsys.readouterr().err


@pytest.mark.parametrize("main", [registry, router, gateway, lambda words: kvlease(["up", *words])])
@pytest.mark.parametrize("collector", ["somewhere", "http://", "http://collector:port"])
def test_so_is_that_of_a_collector_of_traces(main: Main, collector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)

    assert code_of(main, []) == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("kvlease.registry", "--listen", "127.0.0.1:{port}"), "cannot listen on 127.0.0.1:{port}: in use"),
        (("kvlease.cli", "sim-engine", "--role", "decode", "--port", "{port}"), "in use: --port chooses others"),
    ],
)
def test_a_port_that_is_in_use_is_told_without_its_numbers_of_errors(command: tuple[str, ...], said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = [word.format(port=port) for word in command]
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert said.format(port=port) in done.stderr
    assert "GRPC_VERBOSITY" not in done.stderr
    assert "Errno" not in done.stderr
