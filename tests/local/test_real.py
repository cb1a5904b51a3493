"""The demo and `kvlease up`, with real engines."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from kvlease.local import install, model
from tests.docs.blocks import blocks
from tests.docs.place import Place
from tests.docs.reading import ROOT, read

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

VERSION = os.environ.get("KVLEASE_TEST_VLLM", install.VERSIONS[-1])
START, TALK = [block for block in blocks(ROOT / "README.md") if "kvlease" in block.text][:2]


def test_the_demo_shows_that_decode_is_read_and_nothing_else_changes() -> None:
    command = [sys.executable, "-m", "kvlease.local.demo", "--vllm", VERSION]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    last = ended.stdout.splitlines()[-1]
    assert re.fullmatch(r"demo: ok turns=6 reused_tokens=\d+/\d+ nixl_reads=5 max_logprob_diff=\S+", last), ended.stdout
    assert ended.returncode == 0


class Up:
    """`kvlease up` with engines, and the events that it prints."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.pids: dict[str, int] = {}

    def until(self, name: str) -> dict[str, Any]:
        assert self.process.stdout
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "engine started":
                self.pids[event["name"]] = event["pid"]
            if event["event"] == name:
                return event
        raise AssertionError(f"it ended without {name!r}")


def as_told(place: Place) -> list[str]:
    """README's command that starts real engines, on addresses of its own."""
    (told,) = [line for line in START.text.splitlines() if "--engines cpu" in line]
    words = shlex.split(told, comments=True)[1:]
    return [*words, "--registry", place.registry, "--router", place.router, "--gateway", place.gateway]


def test_it_serves_any_client_starts_again_what_dies_and_leaves_nothing_behind(tmp_path: Path) -> None:
    place = Place()
    options = ["--vllm", VERSION, "--json", "--wait", "1s", "--logs", str(tmp_path / "logs")]
    command = [sys.executable, "-m", "kvlease.cli", *as_told(place), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        up = Up(process)
        try:
            with OpenAI(base_url=f"{up.until('ready')['url']}/v1", api_key="none", max_retries=0) as client:
                assert [served.id for served in client.models.list()] == [model.NAME]
                assert says(client) == says(client, stream=True)
                read([TALK], tmp_path, place)
                assert re.search(r'"cached_tokens":[1-9]\d\d', (tmp_path / "said.log").read_text())

                os.killpg(up.pids["decode-0"], 9)
                assert up.until("engine ended")["name"] == "decode-0"
                assert up.until("engine ready")["name"] == "decode-0"
                assert says(client.with_options(max_retries=60))  # its session opens later: 503, try again in 1 s
        finally:
            process.terminate()
        assert process.wait(60) == 0
    for pid in up.pids.values():
        with pytest.raises(ProcessLookupError):
            os.killpg(pid, 0)


def says(client: OpenAI, *, stream: bool = False) -> str:
    asked: Any = client.chat.completions.create(
        model=model.NAME,
        messages=[{"role": "user", "content": "Hello? " * 40}],
        max_tokens=20,
        temperature=0,
        stream=stream,
    )
    if not stream:
        return str(asked.choices[0].message.content)
    return "".join(chunk.choices[0].delta.content or "" for chunk in asked if chunk.choices)
