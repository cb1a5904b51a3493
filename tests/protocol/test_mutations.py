"""The machine is shown to catch what it is there for: each planted fault breaks a law within some lives."""

from collections.abc import Callable

import pytest

from tests.protocol.mutations import MUTATIONS
from tests.protocol.search import search
from tests.protocol.world import Violation

LIVES = 1000
"""At most; the first that shows a fault is the last. As lives are drawn now, none takes fifty."""


@pytest.mark.parametrize("plant", MUTATIONS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    with pytest.raises(Violation):
        search(LIVES, climates=[MUTATIONS[plant]], shrink=False)
