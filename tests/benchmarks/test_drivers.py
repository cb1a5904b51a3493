"""What is sent for a turn, one way and the other."""

import pytest

from benchmarks.multiturn.drivers import Ask, EndpointDriver, StockDriver
from benchmarks.multiturn.requests import Prompt, RequestFailed
from tests.benchmarks.engines import serving

FIRST = Ask("c", Prompt([1, 2]), 3, streamed=False)
SECOND = Ask("c", Prompt([1, 2, 7, 7, 7, 4]), 3, streamed=True)


async def test_an_endpoint_is_told_the_conversation() -> None:
    async with serving("gateway") as (http, (gateway,)):
        answer = await EndpointDriver(http, gateway.url, "m", named=True).turn(FIRST)

    assert gateway.asked[0]["conversation_id"] == "c"
    assert gateway.asked[0]["prompt"] == [1, 2]
    assert answer.tokens == [7, 7, 7]


async def test_an_endpoint_that_is_not_told_cannot_reuse() -> None:
    async with serving("gateway") as (http, (gateway,)):
        await EndpointDriver(http, gateway.url, "m", named=False).turn(FIRST)

    assert "conversation_id" not in gateway.asked[0]


async def test_a_streamed_answer_is_timed_at_its_first_token() -> None:
    async with serving("gateway") as (http, (gateway,)):
        answer = await EndpointDriver(http, gateway.url, "m", named=True).turn(SECOND)

    assert answer.tokens == [7, 7, 7]
    assert 0 < answer.ttft <= answer.elapsed
    assert answer.cached_tokens == 5


async def test_a_stock_proxy_hands_each_leg_the_parameters_of_the_one_before() -> None:
    async with serving("prefill", "decode") as (http, (prefill, decode)):
        driver = StockDriver(http, prefill.url, decode.url, "m", reads=True)
        await driver.turn(FIRST)
        await driver.turn(SECOND)

    first, second = (asked["kv_transfer_params"] for asked in prefill.asked)
    assert first["do_remote_decode"]
    assert first["remote_block_ids"] is None
    assert second == {"remote_engine_id": "decode", "remote_request_id": 1, "remote_num_tokens": 99}
    assert [asked["kv_transfer_params"]["remote_engine_id"] for asked in decode.asked] == ["prefill", "prefill"]
    assert [asked["max_tokens"] for asked in prefill.asked] == [1, 1]


async def test_a_stock_proxy_without_reuse_declines_what_decode_kept() -> None:
    async with serving("prefill", "decode") as (http, (prefill, decode)):
        driver = StockDriver(http, prefill.url, decode.url, "m", reads=False)
        await driver.turn(FIRST)
        await driver.turn(SECOND)

    assert prefill.asked[1]["kv_transfer_params"]["remote_request_id"] == 1
    assert prefill.asked[1]["kv_transfer_params"]["remote_num_tokens"] == 0


async def test_the_client_of_a_stock_stream_leaves_before_its_end() -> None:
    async with serving("prefill", "decode") as (http, (prefill, decode)):
        answer = await StockDriver(http, prefill.url, decode.url, "m", reads=True).turn(SECOND)

    assert answer.tokens == [7, 7, 7]
    assert decode.asked[0]["max_tokens"] > SECOND.answer


async def test_an_error_is_no_answer() -> None:
    async with serving("gateway") as (http, (gateway,)):
        with pytest.raises(RequestFailed, match="404"):
            await EndpointDriver(http, f"{gateway.url}/nowhere", "m", named=True).turn(SECOND)
