"""The engines last seen."""

import asyncio

import pytest
from structlog.testing import capture_logs

from kvlease.router.errors import RegistryUnreachable
from kvlease.router.fleet import Fleet
from kvlease.router.roster import Roster
from tests.router.engines import engine, key
from tests.router.registries import FakeRegistry
from tests.support.clock import FakeClock

STALE = 100.0


class Watched:
    """A roster, its registry, its clock and the fleets that it told of."""

    def __init__(self) -> None:
        self.registry = FakeRegistry(engine("d0"))
        self.clock = FakeClock()
        self.told: list[Fleet] = []
        self.roster = Roster(self.registry, stale=STALE, updated=self.told.append, clock=self.clock)


@pytest.fixture
def watched() -> Watched:
    return Watched()


async def test_a_refresh_tells_of_the_engines(watched: Watched) -> None:
    await watched.roster.refresh()

    assert watched.told == [await watched.roster.fleet(0.0)]
    assert set(watched.told[0].engines) == {key("d0")}
    assert watched.roster.reachable


async def test_the_first_request_asks_when_nothing_is_known(watched: Watched) -> None:
    assert (await watched.roster.fleet(60.0)).engines


async def test_the_engines_last_seen_count_until_they_are_too_old(watched: Watched) -> None:
    await watched.roster.refresh()
    watched.registry.error = RegistryUnreachable("down")
    watched.clock.advance(STALE - 1.0)
    await watched.roster.refresh()

    assert (await watched.roster.fleet(0.0)).engines
    assert not watched.roster.reachable
    watched.clock.advance(1.0)
    with pytest.raises(RegistryUnreachable, match="down; the engines known are too old"):
        await watched.roster.fleet(0.0)


async def test_a_registry_that_comes_back_heals(watched: Watched) -> None:
    watched.registry.error = RegistryUnreachable("down")
    with pytest.raises(RegistryUnreachable):
        await watched.roster.fleet(60.0)
    watched.registry.error = None

    assert (await watched.roster.fleet(60.0)).engines
    assert watched.roster.reachable


async def test_callers_share_one_call(watched: Watched) -> None:
    await asyncio.gather(*(watched.roster.refresh() for _ in range(5)))

    assert watched.registry.calls == ["engines"]


async def test_nobody_waits_longer_than_wanted_for_a_frozen_registry(watched: Watched) -> None:
    watched.registry.frozen = asyncio.Event()
    with pytest.raises(RegistryUnreachable):
        await watched.roster.fleet(0.001)

    watched.registry.frozen.set()
    await watched.roster.refresh()
    assert watched.registry.calls == ["engines"]


async def test_a_call_that_its_first_caller_left_goes_on_for_the_others(watched: Watched) -> None:
    watched.registry.frozen = asyncio.Event()
    first, second = (asyncio.create_task(watched.roster.refresh()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    watched.registry.frozen.set()
    await second

    assert watched.roster.reachable


async def test_a_fault_of_ours_is_logged_and_does_not_end_the_polling(watched: Watched) -> None:
    watched.registry.error = KeyError("a bug")
    with capture_logs() as lines:
        await watched.roster.refresh()
    watched.registry.error = None
    await watched.roster.refresh()

    assert (lines[0]["event"], lines[0]["exc_info"]) == ("engines not understood", True)
    assert watched.roster.reachable


async def test_it_runs_for_ever_at_its_interval(watched: Watched) -> None:
    intervals: list[float] = []

    async def sleep(seconds: float) -> None:
        intervals.append(seconds)
        if len(intervals) == 3:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await watched.roster.run(0.5, sleep)

    assert (intervals, len(watched.told)) == ([0.5] * 3, 3)


async def test_a_loss_and_its_end_are_logged_once(watched: Watched) -> None:
    with capture_logs() as lines:
        for error in (None, RegistryUnreachable("down"), RegistryUnreachable("down"), None, None):
            watched.registry.error = error
            await watched.roster.refresh()

    assert [line["event"] for line in lines] == ["engines listed", "engines not listed", "engines listed"]
