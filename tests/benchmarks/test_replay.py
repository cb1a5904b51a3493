"""The replay: conversations as they are arranged, what is counted, and that all of it runs."""

from pathlib import Path

import pytest

from benchmarks.catalogue import Options, Unavailable
from benchmarks.replay import TRACES, run
from benchmarks.replay.contenders import HABITS, ORACLE, RECENT, REFUSE, patient, within
from benchmarks.replay.pin import PIN, pin
from benchmarks.replay.traces import Talk, Turn, drawn
from benchmarks.replay.traffic import Traffic, arrange
from kvlease.registry.lease import StopReason


def talk(name: str, *gaps: float, tokens: int = 6400) -> Talk:
    return Talk(name, tuple(Turn(gap, 1.0, tokens, StopReason.ANSWERED) for gap in gaps))


def second_half(*talks: Talk) -> Traffic:
    """Traffic in which all of these are counted: names are chosen so that they fall into the second half."""
    return arrange([*talks, talk("x1", 0.0)], per_hour=0.1, seed=1)


NAMES = [name for name in (f"c{i}" for i in range(50)) if arrange([talk(name, 0.0)], per_hour=1, seed=1).counted]


def test_every_turn_of_the_second_half_is_counted_once() -> None:
    talks = drawn(30)
    traffic = arrange(talks, per_hour=60.0, seed=1)

    names = {traffic.parts[i].name.split("#")[0] for i in traffic.counted}
    returns = sum(len(x.turns) - 1 for x in talks if x.name in names)
    assert pin(traffic).turns == returns


def test_a_pin_serves_turns_that_come_within_it() -> None:
    tally = pin(second_half(talk(NAMES[0], 0.0, 10.0, PIN - 1, PIN + 1)))

    assert (tally.turns, tally.hits) == (3, 2)


def test_without_memory_nothing_is_kept_and_with_much_all_that_comes_in_time() -> None:
    traffic = second_half(talk(NAMES[0], 0.0, 10.0, 20.0), talk(NAMES[1], 0.0, 10.0))

    for policy in (REFUSE, RECENT, HABITS, ORACLE):
        assert within(policy, traffic, 640.0).hits == 0
        assert within(policy, traffic, 64_000.0).hits == 3


def test_the_ledger_keeps_with_room_enough_what_a_pin_keeps() -> None:
    traffic = arrange(drawn(20), per_hour=60.0, seed=1)
    pinned, leased = pin(traffic), within(RECENT, traffic, 1e12)

    assert leased.hits == pinned.hits
    assert leased.kept == pytest.approx(pinned.kept)


def test_patience_buys_turns_with_memory() -> None:
    traffic = arrange(drawn(20), per_hour=60.0, seed=1)
    little, much = patient(traffic, 20.0), patient(traffic, 2000.0)

    assert little.kept < much.kept
    assert little.hits <= much.hits


def test_all_of_it_runs(tmp_path: Path) -> None:
    report = run(Options(results=tmp_path, smoke=True))

    assert len(report.figures) == 4
    assert (tmp_path / "replay.svg").exists()


def test_without_traces_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRACES, raising=False)
    with pytest.raises(Unavailable, match=TRACES):
        run(Options())
