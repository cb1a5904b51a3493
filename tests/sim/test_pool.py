"""The pretended pool counts as vLLM's does, and knows what is in its blocks."""

from array import array

import pytest

from kvlease.sim.pool import Block, BlockPool, right
from kvlease.sim.sequence import Sequence

SIZE = 4


def taken(pool: BlockPool, count: int) -> list[Block]:
    blocks = pool.take(count)
    assert blocks is not None
    return blocks


def sequence(*tokens: int) -> Sequence:
    return Sequence(array("i", tokens), SIZE)


def test_the_null_block_is_never_handed_out() -> None:
    pool = BlockPool(5)

    assert [block.block_id for block in taken(pool, 4)] == [1, 2, 3, 4]
    assert pool.take(1) is None
    assert pool.usage == 1


def test_a_block_is_free_when_nobody_refers_to_it() -> None:
    pool = BlockPool(3)
    blocks = taken(pool, 1)
    pool.touch(blocks)

    pool.free_blocks(blocks)
    assert pool.get_num_free_blocks() == 1
    pool.free_blocks(blocks)
    assert pool.get_num_free_blocks() == 2


def test_freeing_twice_is_a_fault() -> None:
    pool = BlockPool(3)
    blocks = taken(pool, 1)
    pool.free_blocks(blocks)

    with pytest.raises(RuntimeError, match="freed twice"):
        pool.free_blocks(blocks)


def test_a_block_that_is_handed_out_again_is_another_writers() -> None:
    pool = BlockPool(2)
    [block] = taken(pool, 1)
    block.tag = b"old"
    pool.cache(block, "key")
    pool.free_blocks([block])
    assert pool.cached("key") is block

    [again] = taken(pool, 1)

    assert (again, again.epoch, again.tag, pool.cached("key")) == (block, 2, None, None)


def test_a_cached_block_comes_back_from_the_free_ones() -> None:
    pool = BlockPool(2)
    [block] = taken(pool, 1)
    pool.cache(block, "key")
    pool.free_blocks([block])

    pool.touch([block])

    assert pool.get_num_free_blocks() == 0


def test_the_least_recently_freed_block_is_used_first() -> None:
    pool = BlockPool(4)
    first, second, third = taken(pool, 3)
    pool.free_blocks([third, first, second])

    assert taken(pool, 3) == [third, first, second]


def test_a_digest_covers_all_before_it() -> None:
    one, other = sequence(1, 2, 3, 4, 5, 6, 7, 8, 9), sequence(0, 2, 3, 4, 5, 6, 7, 8, 9)

    assert one.digest(8) != other.digest(8)
    assert one.digest(9) != one.digest(8)
    assert one.digest(8) == sequence(1, 2, 3, 4, 5, 6, 7, 8).digest(8)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 8, 9])
def test_blocks_are_right_only_with_the_tags_of_their_tokens(count: int) -> None:
    mine, pool = sequence(*range(9)), BlockPool(4)
    blocks = taken(pool, 3)
    for index, block in enumerate(blocks):
        block.tag = mine.digest(min(SIZE * (index + 1), count)) if SIZE * index < count else None

    assert right(blocks, mine, count, SIZE)
    for block in blocks[: -(-count // SIZE)]:
        kept, block.tag = block.tag, b"of another"
        assert not right(blocks, mine, count, SIZE)
        block.tag = kept
