"""The store in memory keeps the contract of stores."""

from itertools import count

import pytest

from kvlease.registry.memory import MemoryStore
from kvlease.registry.rules import Rules
from kvlease.registry.value import LeastRecentlyRenewed
from tests.registry import contract
from tests.registry.world import World, WorldMaker
from tests.support.clock import FakeClock, settle

WATCH_LIMIT = 100


@pytest.fixture
def make() -> WorldMaker:
    """Makes stores on clocks of their own; names are counted up across all of them."""
    names = count()

    def made(rules: Rules) -> World:
        clock = FakeClock()
        store = MemoryStore(
            rules,
            clock=clock,
            sleep=clock.sleep,
            token=lambda: f"token{next(names)}",
            value=LeastRecentlyRenewed(),
            watch_limit=WATCH_LIMIT,
        )

        async def pass_time(seconds: float) -> None:
            clock.advance(seconds)
            store.advance()
            await settle()

        return World(store, pass_time, rules)

    return made


class TestSessions(contract.SessionContract):
    pass


class TestGrants(contract.GrantContract):
    pass


class TestClaims(contract.ClaimContract):
    pass


class TestTurns(contract.TurnContract):
    pass


class TestRenewals(contract.RenewalContract):
    pass


class TestRestarts(contract.RestartContract):
    pass


class TestLists(contract.ListContract):
    pass


class TestWatch(contract.WatchContract):
    pass
