"""A store's clock is trusted only while it goes on steadily, and its server only if it is fit."""

import math

import pytest

from kvlease.registry.errors import StoreUnreachable
from kvlease.registry.redis.reckoning import Reckoning
from kvlease.registry.redis.server import Unfit, examine

EPOCH = 1_700_000_000.0
INFO = (
    b"redis_version:7.0.15\r\nrun_id:abc\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n# Memory\r\n"
)


class ALink:
    """A connection to a server that describes itself so."""

    def __init__(self, info: bytes) -> None:
        self._info = info

    async def call(self, *_command: str | bytes | int) -> bytes:
        return self._info


def told(reckoning: Reckoning, *, sent: float, read: float, received: float) -> bool:
    return reckoning.agrees(sent, EPOCH + read, received)


def test_a_steady_clock_agrees_however_slow_the_network_is() -> None:
    reckoning = Reckoning()

    assert told(reckoning, sent=10.0, read=10.5, received=10.6)
    assert told(reckoning, sent=11.0, read=14.0, received=14.1)
    assert told(reckoning, sent=15.0, read=15.0001, received=19.0)
    assert told(reckoning, sent=20.0, read=20.001, received=20.002)


@pytest.mark.parametrize("by", [-5.0, -0.1, 0.1, 3600.0])
def test_a_clock_that_was_set_does_not(by: float) -> None:
    reckoning = Reckoning()
    told(reckoning, sent=10.0, read=10.001, received=10.002)

    assert not told(reckoning, sent=11.0, read=11.001 + by, received=11.002)


def test_answers_to_earlier_questions_may_come_later() -> None:
    reckoning = Reckoning()
    told(reckoning, sent=11.0, read=11.001, received=11.002)

    assert told(reckoning, sent=10.9, read=11.0, received=11.001)


def test_clocks_may_drift_apart() -> None:
    reckoning = Reckoning(slack=0.0)
    told(reckoning, sent=10.0, read=10.0, received=10.0)

    assert told(reckoning, sent=110.0, read=110.1, received=110.0)
    assert not told(reckoning, sent=111.0, read=111.2, received=111.0)


def test_another_server_has_another_clock() -> None:
    reckoning = Reckoning(slack=0.0)
    told(reckoning, sent=10.0, read=10.0, received=10.0)

    reckoning.begin()

    assert told(reckoning, sent=11.0, read=500.0, received=11.0)
    assert not told(reckoning, sent=12.0, read=math.e, received=12.0)


async def test_a_server_is_fit_if_it_is_new_enough_a_master_and_evicts_nothing() -> None:
    assert (await examine(ALink(INFO))).run_id == "abc"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ((b"7.0.15", b"6.2.14"), Unfit, "version 6.2.14"),
        ((b"maxmemory:0", b"maxmemory:1000"), Unfit, "allkeys-lru"),
        ((b"role:master", b"role:slave"), StoreUnreachable, "replica"),
    ],
)
async def test_else_it_is_not(change: tuple[bytes, bytes], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        await examine(ALink(INFO.replace(*change)))  # type: ignore[arg-type]
