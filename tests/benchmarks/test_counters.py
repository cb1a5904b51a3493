"""What an engine's counters say of its work."""

import pytest

from benchmarks.multiturn.counters import Pool, look, pool_in, work, work_since
from tests.benchmarks.engines import serving

INFO = 'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="100",x="y"} 1.0\n'


def test_a_pool_holds_its_blocks_times_their_size() -> None:
    pool = pool_in(f"# HELP\n{INFO}vllm:other 1\n")

    assert pool == Pool(blocks=100, block_size=16)
    assert pool.tokens == 1600


def test_when_a_pool_holds_all_that_it_can_no_further_one_fits() -> None:
    pool = Pool(blocks=100, block_size=16)

    assert pool.holds(17) == 50
    assert pool.holds(480) == 3  # 10 blocks are left over, and 30 would be needed


def test_an_engine_that_does_not_tell_its_pool_is_an_error() -> None:
    with pytest.raises(OSError, match="pool"):
        pool_in("vllm:other 1\n")


async def test_work_is_what_was_counted_since() -> None:
    async with serving("engine") as (http, (engine,)):
        before = await look(engine.url)
        async with http.post(f"{engine.url}/v1/completions", json={"max_tokens": 1, "logprobs": 1}):
            pass
        done = await work_since(engine.url, before, requests=1, reads=1)

    assert (done.requests, done.reads, done.total) == (1, 1, 0.5)
    assert work(before, before).requests == 0
