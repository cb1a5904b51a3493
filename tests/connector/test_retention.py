"""Blocks are kept by reference, and given back once."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.connector.retention import Retention
from tests.connector.pools import Pool


def test_blocks_outlive_the_request_that_wrote_them() -> None:
    pool = Pool(10)
    pool.allocate(1, 2, 3)
    retention = Retention(pool)

    kept = retention.keep("lease", [[1, 2, 3]])
    pool.free_blocks([pool.blocks[i] for i in (3, 2, 1)])  # the request's own hold

    assert (kept, retention.blocks, retention.free, pool.freed) == (3, 3, 6, [])


def test_blocks_that_are_let_go_are_freed_from_the_end() -> None:
    pool = Pool(10)
    retention = Retention(pool)
    retention.keep("lease", [[1, 2, 3]])

    retention.let_go("lease")

    assert (pool.freed, retention.blocks, retention.free) == ([3, 2, 1], 0, 9)


def test_a_block_that_two_leases_share_is_counted_once_and_freed_with_the_last() -> None:
    pool = Pool(10)
    retention = Retention(pool)
    retention.keep("one", [[1, 2]])
    retention.keep("other", [[1, 3]])

    assert retention.blocks == 3
    retention.let_go("one")
    assert (pool.freed, retention.blocks) == ([2], 2)
    retention.let_go("other")
    assert (sorted(pool.freed), retention.blocks) == ([1, 2, 3], 0)


def test_null_blocks_are_nobodys() -> None:
    retention = Retention(Pool(10))

    assert retention.keep("lease", [[0, 0, 4], [5]]) == 2


def test_what_is_not_kept_cannot_be_let_go() -> None:
    retention = Retention(Pool(10))
    retention.keep("lease", [[1]])
    retention.let_go("lease")

    with pytest.raises(KeyError):
        retention.let_go("lease")


@given(st.dictionaries(st.text(max_size=3), st.lists(st.integers(1, 9), unique=True), max_size=6), st.randoms())
def test_the_pool_is_as_before_once_all_are_let_go(leases: Mapping[str, list[int]], random: Random) -> None:
    pool = Pool(10)
    pool.allocate(1, 2)
    before = [block.ref_cnt for block in pool.blocks]
    retention = Retention(pool)
    for name, ids in leases.items():
        retention.keep(name, [ids])

    assert retention.blocks == len({block_id for ids in leases.values() for block_id in ids})
    for name in sorted(leases, key=lambda _: random.random()):
        retention.let_go(name)

    assert [block.ref_cnt for block in pool.blocks] == before
    assert retention.blocks == 0
