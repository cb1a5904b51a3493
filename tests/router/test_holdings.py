"""Where a conversation's KV is."""

import pytest

from kvlease.router.errors import RegistryUnreachable
from kvlease.router.holdings import Holding, Holdings, best
from kvlease.router.registry import Branch, RegistryRefused
from tests.router.engines import key
from tests.router.registries import FakeRegistry

MAIN = Branch(key("d0"), 20_000, 7)
SIDE = Branch(key("d1"), 300, 8)


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


@pytest.fixture
def holdings(registry: FakeRegistry) -> Holdings:
    return Holdings(registry, capacity=2)


@pytest.mark.parametrize(
    ("prompt_tokens", "branch"), [(0, MAIN), (21_000, MAIN), (310, MAIN), (300, SIDE), (200, SIDE)]
)
def test_the_best_branch_holds_most_of_what_the_prompt_can_use(prompt_tokens: int, branch: Branch) -> None:
    assert best([MAIN, SIDE], prompt_tokens) is branch


async def test_what_the_registry_knows_counts(registry: FakeRegistry, holdings: Holdings) -> None:
    registry.held["a", "c"] = [SIDE, MAIN]
    holdings.remember("a", "c", key("d2"))

    assert await holdings.find("a", "c", 0, 0.05) == Holding(key("d0"), 20_000, 8)


async def test_without_a_lease_the_last_turns_engine_is_the_best_guess(holdings: Holdings) -> None:
    holdings.remember("a", "c", key("d2"))

    assert await holdings.find("a", "c", 0, 0.05) == Holding(key("d2"))
    assert await holdings.find("b", "c", 0, 0.05) == Holding(None, new=True)


@pytest.mark.parametrize(("error", "reachable"), [(RegistryUnreachable("down"), False), (RegistryRefused("no"), True)])
async def test_without_an_answer_too(
    registry: FakeRegistry, holdings: Holdings, error: Exception, reachable: bool
) -> None:
    registry.error = error
    holdings.remember("a", "c", key("d2"))

    assert await holdings.find("a", "c", 0, 0.05) == Holding(key("d2"), reachable=reachable)


async def test_the_conversations_used_last_are_remembered(holdings: Holdings) -> None:
    for conversation in ("c1", "c2", "c1", "c3"):
        holdings.remember("a", conversation, key("d2"))

    assert (await holdings.find("a", "c1", 0, 0.05)).holder == key("d2")
    assert (await holdings.find("a", "c2", 0, 0.05)).holder is None
