"""A stock proxy's prefill and decode work on simulated engines without tickets or leases."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from kvlease.sim import answer, tokens
from kvlease.sim.fleet import Fleet
from tests.sim.lone import PROMPT, Lone
from tests.sim.stack import engine, until

ASK_PREFILL = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None}


@asynccontextmanager
async def both(*, apart: bool = False) -> AsyncIterator[tuple[Lone, Lone]]:
    """Runs a prefill and a decode engine, on one wire or *apart*."""
    settings = engine("prefill"), engine("decode")
    one, other = (Fleet(settings[:1]), Fleet(settings[1:])) if apart else (Fleet(settings), Fleet(()))
    async with one, other:
        prefill, decode = (*one.instances, *other.instances)
        async with aiohttp.ClientSession(prefill.url) as first, aiohttp.ClientSession(decode.url) as second:
            yield Lone(prefill, first), Lone(decode, second)


async def handed_over(prefill: Lone) -> dict[str, Any]:
    told = await prefill.chat(max_tokens=1, kv_transfer_params=ASK_PREFILL)
    params: dict[str, Any] = told["kv_transfer_params"]
    return params


def right(told: dict[str, Any]) -> bool:
    said: str = told["choices"][0]["message"]["content"]
    return said == answer.text(tokens.of_chat(PROMPT), 9)


@pytest.mark.parametrize("apart", [False, True], ids=["one process", "two processes"])
async def test_decode_reads_what_prefill_hands_over_and_prefill_frees_it(apart: bool) -> None:
    async with both(apart=apart) as (prefill, decode):
        params = await handed_over(prefill)
        assert await prefill.metric("kvlease_sim_used_blocks") > 0

        told = await decode.chat(max_tokens=9, kv_transfer_params=params)

        assert right(told)
        assert await decode.metric("vllm:nixl_xfer_time_seconds_count") == 1
        await until(lambda: prefill.instance.engine.pool.usage == 0)


async def test_a_handle_is_read_once() -> None:
    async with both() as (prefill, decode):
        params = await handed_over(prefill)

        for _ in range(2):
            assert right(await decode.chat(max_tokens=9, kv_transfer_params=params, cache_salt="none"))

        assert await decode.metric("vllm:nixl_xfer_time_seconds_count") == 1


@pytest.mark.parametrize("params", [{"x": 1}, {"do_remote_prefill": True}, {"kvlease_ticket": "forged"}])
async def test_parameters_that_name_nothing_are_computed(params: dict[str, Any]) -> None:
    async with both() as (_, decode):
        assert right(await decode.chat(max_tokens=9, kv_transfer_params=params))

        assert await decode.metric("kvlease_sim_used_blocks") == 0


async def test_a_prefill_that_is_gone_is_computed() -> None:
    async with both() as (prefill, decode):
        params = await handed_over(prefill)
        prefill.instance.crash()

        assert right(await decode.chat(max_tokens=9, kv_transfer_params=params))
