import json
from collections.abc import Callable

import pytest

from kvlease.client.testing import FakeRegistry

Run = Callable[..., int]
Capture = pytest.CaptureFixture[str]


def test_an_engine_is_drained_and_put_back(run: Run, registry: FakeRegistry, capsys: Capture) -> None:
    assert run("engines", "drain", "decode") == 0
    assert registry.engines["decode"].draining
    assert run("engines", "drain", "decode", "--undo") == 0
    assert not registry.engines["decode"].draining

    assert capsys.readouterr().out.splitlines() == [
        "drained; 0 requests and 0 leases of 0 blocks left",
        "takes new turns again",
    ]


def test_an_engine_that_is_still_busy_when_the_wait_is_over_is_a_failure(
    run: Run, registry: FakeRegistry, capsys: Capture
) -> None:
    registry.engines["decode"].load.running = 2

    assert run("engines", "drain", "decode", "--wait", "1ms", "--json") == 1

    assert json.loads(capsys.readouterr().out)["engine"]["load"]["running"] == 2
    registry.engines["decode"].load.running = 0
    assert run("engines", "drain", "decode", "--wait", "1m") == 0


def test_an_unknown_engine_is_told(run: Run, capsys: Capture) -> None:
    assert run("engines", "drain", "unknown") == 1

    assert "no such engine" in capsys.readouterr().err
