"""The collector of cyclic garbage."""

import gc
from collections.abc import Iterator

import pytest

from kvlease.rpc import collector


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_there_is_left_alone_and_garbage_is_still_found() -> None:
    collector.settle()

    assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_threshold()[0] > 700
