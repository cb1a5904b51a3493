from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvlease.v1.lease_pb2 import EngineRef
from tests.connector.linked import Linked
from tests.connector.plane import Registry, Router
from tests.connector.requests import PREFILL


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture
def router() -> Iterator[Router]:
    with Router() as router:
        yield router


@pytest.fixture
def link(registry: Registry, router: Router) -> Iterator[Callable[..., Linked]]:
    """Makes links; starts none."""
    made: list[Linked] = []

    def make(ref: EngineRef = PREFILL, **how: Any) -> Linked:
        made.append(Linked(registry, router, ref, **how))
        return made[-1]

    yield make
    registry.thaw()
    router.thaw()
    for one in made:
        one.stop()
