from collections.abc import Callable, Iterator

import pytest

from kvlease.cli.__main__ import main
from kvlease.client.testing import FakeRegistry, FakeRouter
from kvlease.client.types import EngineRole

Run = Callable[..., int]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as registry:
        registry.add_engine("decode", role=EngineRole.DECODE)
        yield registry


@pytest.fixture
def router(registry: FakeRegistry) -> Iterator[FakeRouter]:
    with FakeRouter(registry) as router:
        yield router


@pytest.fixture
def run(registry: FakeRegistry, router: FakeRouter, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line against the fakes; gives its exit code."""
    monkeypatch.setenv("KVLEASE_REGISTRY", registry.address)
    monkeypatch.setenv("KVLEASE_ROUTER", router.address)
    return lambda *words: main(words)
