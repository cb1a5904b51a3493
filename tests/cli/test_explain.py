"""`kvlease explain` tells the story of a conversation's last turns."""

import json
from collections.abc import Callable

import pytest

from kvlease.client.sync import Client
from kvlease.client.testing import FakeRegistry, FakeRouter
from kvlease.client.types import EngineRole

Run = Callable[..., int]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def conversed(registry: FakeRegistry, router: FakeRouter) -> None:
    """Two turns of conversation "c"."""
    registry.add_engine("prefill", role=EngineRole.PREFILL)
    with Client(registry=registry.address, router=router.address) as client:
        for tokens in (1000, 1500):
            turn = client.route("model", conversation_id="c", prompt_tokens=tokens)
            client.complete(turn.ticket)


@pytest.mark.usefixtures("conversed")
def test_turns_are_told_newest_first_and_what_is_kept(run: Run, capsys: Capture) -> None:
    assert run("explain", "c") == 0

    newest, oldest = capsys.readouterr().out.split("\n\n")[:2]
    assert "completed: reused" in newest
    assert "1000 read from decode" in newest
    assert "completed: not reused" in oldest


@pytest.mark.usefixtures("conversed")
def test_json_has_records_and_verdicts(run: Run, capsys: Capture) -> None:
    assert run("explain", "c", "--limit", "1", "--json") == 0

    told = json.loads(capsys.readouterr().out)
    (turn,) = told["turns"]
    assert turn["verdict"]["outcome"] == "reused"
    assert turn["ticket"]["report"]["reused_tokens"] == 1000
    assert told["leases"][0]["tokens"] == 1500


def test_a_conversation_that_nobody_knows_is_a_failure_that_says_what_to_check(run: Run, capsys: Capture) -> None:
    assert run("explain", "unknown") == 1

    assert "is the name right" in capsys.readouterr().out


def test_why_nothing_is_kept_of_a_short_conversation_is_said(
    run: Run, registry: FakeRegistry, router: FakeRouter, capsys: Capture
) -> None:
    registry.add_engine("prefill", role=EngineRole.PREFILL)
    with Client(registry=registry.address, router=router.address) as client:
        client.complete(client.route("model", conversation_id="c", prompt_tokens=50).ticket)
        client.end("c")

    assert run("explain", "c") == 0

    assert "nothing is kept for c now: a prompt and its answer of less than 128 tokens" in capsys.readouterr().out
