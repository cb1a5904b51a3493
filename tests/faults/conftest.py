"""Here `stack` has simulated engines: scenarios of tests/e2e that are imported here run on them."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import conversation
from tests.e2e.stack import Stack
from tests.e2e.test_pressure import TTL
from tests.faults import simulated

__all__ = ["conversation", "small", "stack"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose decode engine has 64 blocks of 128 tokens."""
    logs = tmp_path_factory.mktemp("logs")
    with simulated.running(logs, ttl=TTL, engines=("--block-size", "128"), decode=("--blocks", "64")) as made:
        yield made


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with simulated.running(tmp_path_factory.mktemp("logs")) as made:
        yield made
