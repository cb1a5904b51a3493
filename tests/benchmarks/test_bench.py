"""Every benchmark works, as small as can be. What it finds then means nothing."""

from pathlib import Path

import pytest

from benchmarks.__main__ import OK, main
from benchmarks.fleet.costs import Costs
from benchmarks.fleet.model import Fleet, Model

COSTS = Costs(grant=1e-4, claim=1e-4, heartbeat=1e-4, locate=1e-5, route=2e-4, resolve=1e-4, store=5e-5)


@pytest.mark.parametrize("name", ["calls", "gateway", "table"])
def test_it_ends_with_lines_a_table_and_a_picture(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--smoke", "--results", str(tmp_path)]) == OK

    assert f"bench {name}: " in capsys.readouterr().out
    assert {file.name for file in tmp_path.iterdir()} == {f"{name}.json", f"{name}.svg"}


def test_a_fleet_that_is_not_busy_waits_for_little_more_than_its_calls() -> None:
    outcome = Model(Fleet(10, 100, 20.0, 1, shared=False), COSTS).run(20.0)

    assert outcome.late == 0
    assert outcome.registry < 0.1
    assert 5e-4 < outcome.p99 < 5e-3


def test_past_a_core_everybody_is_late_and_more_replicas_help_until_the_store_is_full() -> None:
    def ran(replicas: int, *, shared: bool) -> float:
        return Model(Fleet(10, 100, 2_000.0, replicas, shared=shared), COSTS).run(5.0).late

    assert ran(1, shared=False) > 0.1
    assert ran(4, shared=False) == 0
    assert ran(4, shared=True) == 0
    assert Model(Fleet(10, 100, 4_000.0, 8, shared=True), COSTS).run(5.0).store == pytest.approx(1.0, abs=0.05)
