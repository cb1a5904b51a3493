"""Fixtures that the contract's classes share."""

import pytest

from kvlease.registry.rules import Rules
from tests.registry.world import World, WorldMaker

for part in ("claims", "grants", "lists", "renewals", "restarts", "sessions", "turns", "watch"):
    pytest.register_assert_rewrite(f"tests.registry.contract_{part}")


@pytest.fixture
def fresh(make: WorldMaker) -> World:
    """A store with the default rules that has just started."""
    return make(Rules())


@pytest.fixture
async def world(fresh: World) -> World:
    """The same, past the first claim length of its life."""
    await fresh.calm()
    return fresh
