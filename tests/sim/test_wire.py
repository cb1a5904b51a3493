"""Blocks are read across processes as within one: as they are when they are read."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kvlease.sim.pool import BlockPool
from kvlease.sim.wire import ReadFailedError, Wire


class Owner:
    """An engine with some blocks in use, all but the last of them filled."""

    def __init__(self) -> None:
        self.pool = BlockPool(8)
        self.blocks = self.pool.take(3) or []
        self.blocks[0].tag, self.blocks[1].tag = b"first", b"second"
        self.read: list[str] = []

    def notified(self, request_id: str) -> None:
        self.read.append(request_id)


class Two:
    """An owner on one wire, and another wire to read from."""

    def __init__(self, here: Wire, there: Wire, owner: Owner) -> None:
        self.here, self.there, self.owner = here, there, owner

    def params(self, engine: str = "owner") -> dict[str, Any]:
        return {"remote_engine_id": engine, "remote_host": self.here.host, "remote_port": self.here.port}


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    async with Wire() as here, Wire() as there:
        owner = Owner()
        here.attach("owner", owner)
        yield Two(here, there, owner)


@pytest.fixture(params=["same process", "other process"])
def reader(request: pytest.FixtureRequest, two: Two) -> Wire:
    return two.here if request.param == "same process" else two.there


async def test_blocks_are_read_as_they_are(two: Two, reader: Wire) -> None:
    assert await reader.fetch(two.params(), [1, 2, 3]) == [b"first", b"second", None]


async def test_a_block_that_nobody_holds_reads_as_overwritten(two: Two, reader: Wire) -> None:
    two.owner.pool.free_blocks(two.owner.blocks[:1])

    assert await reader.fetch(two.params(), [1, 2]) == [None, b"second"]


async def test_the_owner_hears_who_has_read(two: Two, reader: Wire) -> None:
    await reader.fetch(two.params(), [1], done="request")

    assert two.owner.read == ["request"]


@pytest.mark.parametrize("blocks", [[0], [8], [1, 100]])
async def test_blocks_that_are_not_there_cannot_be_read(two: Two, reader: Wire, blocks: list[int]) -> None:
    with pytest.raises(ReadFailedError, match="no such blocks"):
        await reader.fetch(two.params(), blocks)


async def test_an_engine_that_is_gone_cannot_be_read(two: Two, reader: Wire) -> None:
    two.here.detach("owner")

    with pytest.raises(ReadFailedError, match="no engine"):
        await reader.fetch(two.params(), [1])


async def test_a_process_that_is_gone_cannot_be_read_and_is_found_when_it_is_back(two: Two) -> None:
    nowhere = two.params() | {"remote_port": 1}

    with pytest.raises(ReadFailedError, match="does not answer"):
        await two.there.fetch(nowhere, [1])
    assert await two.there.fetch(two.params(), [1]) == [b"first"]
