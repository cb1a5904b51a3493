from collections.abc import Iterator

import pytest

from kvlease.client.testing import FakeRegistry, FakeRouter
from kvlease.client.types import EngineRole


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A registry with one prefill and one decode engine."""
    with FakeRegistry() as registry:
        registry.add_engine("decode", role=EngineRole.DECODE)
        registry.add_engine("prefill", role=EngineRole.PREFILL)
        yield registry


@pytest.fixture
def router(registry: FakeRegistry) -> Iterator[FakeRouter]:
    with FakeRouter(registry) as router:
        yield router
