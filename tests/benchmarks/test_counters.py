"""What an engine's counters say of its work."""

import pytest

from benchmarks.multiturn.counters import look, pool_tokens_in, work, work_since
from tests.benchmarks.engines import serving

INFO = 'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="100",x="y"} 1.0\n'


def test_a_pool_holds_its_blocks_times_their_size() -> None:
    assert pool_tokens_in(f"# HELP\n{INFO}vllm:other 1\n") == 1600


def test_an_engine_that_does_not_tell_its_pool_is_an_error() -> None:
    with pytest.raises(OSError, match="pool"):
        pool_tokens_in("vllm:other 1\n")


async def test_work_is_what_was_counted_since() -> None:
    async with serving("engine") as (http, (engine,)):
        before = await look(engine.url)
        async with http.post(f"{engine.url}/v1/completions", json={"max_tokens": 1, "logprobs": 1}):
            pass
        done = await work_since(engine.url, before, requests=1, reads=1)

    assert (done.requests, done.reads, done.total) == (1, 1, 0.5)
    assert work(before, before).requests == 0
