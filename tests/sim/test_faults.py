"""Faults are switched on by name and end by the clock."""

import pytest

from kvlease.sim.faults import NAMES, Switches
from tests.support.clock import FakeClock


def test_nothing_is_wrong_at_first() -> None:
    switches = Switches(FakeClock())

    assert switches.calm
    assert switches.left() == dict.fromkeys(NAMES, 0)


def test_a_lasting_fault_ends_by_the_clock() -> None:
    clock = FakeClock()
    switches = Switches(clock)

    switches.set({"freeze": 2})
    clock.advance(1.5)
    assert switches.span("freeze") == pytest.approx(0.5)
    clock.advance(0.5)
    assert switches.span("freeze") == 0


def test_a_lasting_fault_can_be_ended_early() -> None:
    switches = Switches(FakeClock())
    switches.set({"control_cut": 60})

    switches.set({"control_cut": 0})

    assert switches.span("control_cut") == 0


def test_a_counted_fault_happens_so_often() -> None:
    switches = Switches(FakeClock())
    switches.set({"fail_next": 2})

    assert [switches.take("fail_next") for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    "wanted", [{"explode": 1}, {"freeze": -1}, {"freeze": "1"}, {"freeze": True}, {"freeze": float("inf")}]
)
def test_what_is_no_fault_is_refused_and_nothing_else_switched(wanted: dict[str, object]) -> None:
    switches = Switches(FakeClock())

    with pytest.raises(ValueError, match=r"explode|freeze"):
        switches.set({"fail_next": 1} | wanted)
    assert not switches.take("fail_next")


async def test_a_frozen_engine_waits_until_it_is_thawed() -> None:
    clock = FakeClock()
    switches = Switches(clock)
    switches.set({"freeze": 60})
    clock.advance(60)

    await switches.thawed()
