"""`kvlease up` as a process, without engines of its own."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from kvlease.client.engine import EngineRegistryClient
from kvlease.client.openai import with_conversation
from kvlease.client.sync import Client
from kvlease.client.types import LeaseKind
from kvlease.v1 import lease_pb2, registry_pb2

ANYWHERE = ("--registry", "127.0.0.1:0", "--router", "127.0.0.1:0", "--gateway", "127.0.0.1:0")


class Up:
    """The process, and the events that it prints."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def event(self, name: str) -> dict[str, Any]:
        """The next event of that name."""
        assert self.process.stdout
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == name:
                return event
        raise AssertionError(f"it ended without {name!r}")


@contextmanager
def running(*options: str) -> Iterator[Up]:
    command = [sys.executable, "-m", "kvlease.cli", "up", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Up(process)
        finally:
            process.terminate()


def up(*options: str) -> "subprocess.CompletedProcess[str]":
    """Runs it to its end."""
    command = [sys.executable, "-m", "kvlease.cli", "up", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


async def test_it_is_ready_once_an_engine_has_come_from_elsewhere(tmp_path: Path) -> None:
    engine = registry_pb2.Engine(
        ref=lease_pb2.EngineRef(engine_id="far", incarnation="1"),
        role=registry_pb2.ENGINE_ROLE_DECODE,
        models=["m"],
        http_url="http://127.0.0.1:1",
        total_blocks=100,
        block_size=16,
    )
    with running(*ANYWHERE, "--logs", str(tmp_path)) as stack:
        listening = stack.event("listening")
        assert listening["log"] == str(tmp_path / "services.log")
        assert stack.event("waiting")["registry"] == listening["registry"]
        client = EngineRegistryClient(listening["registry"])
        await client.open_session(registry_pb2.OpenSessionRequest(engine=engine), timeout=10)
        await client.close()

        assert stack.event("ready") == {"event": "ready", "url": listening["gateway"]}
    assert "session opened" in (tmp_path / "services.log").read_text()


def test_leases_live_as_long_as_asked(tmp_path: Path) -> None:
    with running(*ANYWHERE, "--engines", "sim", "--answered-ttl", "20s", "--logs", str(tmp_path)) as stack:
        registry = stack.event("listening")["registry"]
        url = stack.event("ready")["url"]
        with OpenAI(base_url=f"{url}/v1", api_key="none") as client:
            with_conversation(client, "c").completions.create(model="kvlease-tiny", prompt="well? " * 200)

        with Client(registry=registry) as services:
            events = services.watch_leases(conversation_id="c", kind=LeaseKind.DECODE)
            kept = next(event.lease for event in events if event.lease)

    assert 0 < kept.remaining <= 20


def test_a_life_that_cannot_be_is_told() -> None:
    ended = up(*ANYWHERE, "--answered-ttl", "2h")

    assert (ended.returncode, "longest" in ended.stderr) == (2, True)


def test_simulated_engines_are_there_at_once_and_reuse(tmp_path: Path) -> None:
    options = ("--engines", "sim", "--no-prefill-prefix-caching", "--decode", "2", "--wait", "2s")
    with running(*ANYWHERE, *options, "--logs", str(tmp_path)) as stack:
        router = stack.event("listening")["router"]
        url = stack.event("ready")["url"]
        with OpenAI(base_url=f"{url}/v1", api_key="-") as client:
            talk = with_conversation(client, "c")
            messages: list[Any] = [{"role": "user", "content": "Hello? Is anybody there? " * 40}]
            said = talk.chat.completions.create(model="kvlease-tiny", messages=messages).choices[0].message.content
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "Who?"}]
            talk.chat.completions.create(model="kvlease-tiny", messages=messages)
        with Client(router=router) as services:
            newest, *_ = services.list_tickets(conversation_id="c")

    assert newest.report
    assert newest.report.reused_tokens > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_well(number: signal.Signals, tmp_path: Path) -> None:
    with running(*ANYWHERE, "--logs", str(tmp_path)) as stack:
        stack.event("waiting")

        stack.process.send_signal(number)

        stack.event("stopping")
        assert stack.process.wait(30) == 0


def test_people_are_told_how_engines_find_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kvlease.cli", "up", *ANYWHERE, "--logs", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        listening, waiting = process.stderr.readline(), process.stderr.readline()
        process.terminate()

    registry = listening.split()[1].rstrip(",")
    assert f"KVLEASE_REGISTRY={registry}" in waiting


def test_people_are_told_where_the_services_log_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kvlease.cli", "up", *ANYWHERE, "--logs", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        listening = process.stderr.readline()
        process.terminate()

    assert listening.rstrip().endswith(f"their log is {tmp_path / 'services.log'}")
    assert (tmp_path / "services.log").exists()


def test_people_are_told_the_model_and_the_status_page_and_scripts_the_url_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kvlease.cli", "up", *ANYWHERE, "--engines", "sim", "--logs", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        ready = process.stdout.readline().split()
        process.terminate()
        _, told = process.communicate(timeout=60)

    assert ready[0] == "ready"
    assert f"model kvlease-tiny, status page {ready[1]}/ui" in told


def test_others_are_served_if_somebody_says_so(tmp_path: Path) -> None:
    anywhere = [part.replace("127.0.0.1", "0.0.0.0") for part in ANYWHERE]
    command = [sys.executable, "-m", "kvlease.cli", "up", *anywhere, "--insecure", "--logs", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        listening = process.stderr.readline()
        process.terminate()

    assert listening.count("0.0.0.0:") == 3


def test_engines_that_are_not_installed_are_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVLEASE_ENGINES", str(tmp_path))

    ended = up("--engines", "cpu", *ANYWHERE)

    assert ended.returncode == 2
    assert "make setup" in ended.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--gateway", "0.0.0.0:8440"), "--insecure"),
        (("--registry", "nowhere"), "no listen address"),
        (("--prefill", "0"), "no number from 1 on"),
        (("--wait", "0s"), "must be above 0"),
        (("--vllm", "0.1.0"), "0.29.0"),
    ],
)
def test_what_cannot_be_is_refused(options: tuple[str, ...], told: str, tmp_path: Path) -> None:
    ended = up(*ANYWHERE, *options, "--logs", str(tmp_path))

    assert ended.returncode == 2
    assert told in ended.stderr


@pytest.mark.parametrize("option", ["--registry", "--gateway"])
def test_an_address_that_is_taken_is_a_failure_that_says_what_to_do(option: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        ended = up(*ANYWHERE, option, address, "--logs", str(tmp_path))

    assert ended.returncode == 1
    assert f"{address} is in use: is another kvlease running? {option} chooses another" in ended.stderr
