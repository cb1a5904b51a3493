"""When an engine asks for leased blocks back."""

from dataclasses import dataclass

import pytest

from kvlease.connector.pressure import PATIENCE, Pressure


@dataclass
class Pool:
    """So many blocks kept by leases, so many free."""

    blocks: int
    free: int


def test_nothing_is_asked_while_the_watermark_is_free() -> None:
    assert Pressure(total=100, watermark=0.1).reclaim(Pool(blocks=80, free=10), now=0.0) == 0


def test_what_is_short_of_the_watermark_is_asked_for() -> None:
    assert Pressure(total=100, watermark=0.1).reclaim(Pool(blocks=80, free=3), now=0.0) == 7


def test_the_request_that_vllm_is_about_to_allocate_counts_too() -> None:
    pressure = Pressure(total=100, watermark=0.1, wanted=20)

    assert pressure.reclaim(Pool(blocks=80, free=12), now=0.0) == 18


@pytest.mark.parametrize(("blocks", "asked"), [(0, 0), (4, 4)])
def test_no_more_is_asked_than_leases_keep(blocks: int, asked: int) -> None:
    assert Pressure(total=100, watermark=0.1).reclaim(Pool(blocks=blocks, free=0), now=0.0) == asked


def test_what_was_asked_for_is_asked_for_again_only_after_a_while() -> None:
    pressure, pool = Pressure(total=100, watermark=0.1), Pool(blocks=80, free=0)

    asked = [pressure.reclaim(pool, now) for now in (5.0, 5.0 + PATIENCE / 2, 5.0 + PATIENCE)]

    assert asked == [10, 0, 10]


def test_nothing_asked_for_is_no_reason_to_wait() -> None:
    pressure = Pressure(total=100, watermark=0.1)
    pressure.reclaim(Pool(blocks=80, free=50), now=5.0)

    assert pressure.reclaim(Pool(blocks=80, free=0), now=5.0) == 10
