"""Transfer parameters of a stock proxy: what could stop the engine, or read blocks twice, never reaches stock code."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.connector.stock import StockParameters

BLOCK = 16


def from_prefill(blocks: int = 4, **changes: Any) -> dict[str, Any]:
    """What a stock prefill engine gives for a prompt of 64 tokens."""
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_block_ids": [list(range(blocks))],
        "remote_engine_id": "p",
        "remote_request_id": "r",
        "remote_host": "h",
        "remote_port": 5600,
        "tp_size": 1,
    } | changes


def stock(groups: int = 1) -> StockParameters:
    return StockParameters(groups, BLOCK)


def test_what_a_stock_prefill_engine_gives_is_left_as_it_is() -> None:
    params = from_prefill()

    assert stock().tame(params, 64) == ""
    assert params == from_prefill()


def test_a_request_for_prefill_is_left_as_it_is() -> None:
    params = {"do_remote_decode": True, "do_remote_prefill": False, "remote_block_ids": None, "remote_host": None}

    assert stock().tame(params, 64) == ""
    assert params["do_remote_decode"] is True


def test_decodes_kv_is_never_read_without_a_lease() -> None:
    params = from_prefill(do_remote_prefill=False, do_remote_decode=True, remote_num_tokens=64)

    assert "only under a lease" in stock().tame(params, 64)
    assert not params.get("remote_block_ids")
    assert params["do_remote_decode"] is True


@pytest.mark.parametrize(
    "missing",
    ["remote_block_ids", "remote_engine_id", "remote_request_id", "remote_host", "remote_port", "tp_size"],
)
@pytest.mark.parametrize("how", ["absent", "none"])
def test_an_incomplete_handle_is_not_read(missing: str, how: str) -> None:
    params = from_prefill()
    if how == "absent":
        del params[missing]
    else:
        params[missing] = None

    assert missing in stock().tame(params, 64)
    assert params["do_remote_prefill"] is False


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [[]],
        [[0, 1, 2]],
        [[0, 1, 2, 3], [0, 1, 2, 3]],
        [0, 1, 2, 3],
        "0123",
        {"0": [0, 1, 2, 3]},
        [["0", "1", "2", "3"]],
        [[0, 1, 2, -1]],
        [[0, 1, 2, None]],
        [[0, 1, 2, 3.0]],
    ],
)
def test_block_ids_that_do_not_fit_the_prompt_are_not_read(bad: Any) -> None:
    params = from_prefill(remote_block_ids=bad)

    assert "do not fit" in stock().tame(params, 64)
    assert params["do_remote_prefill"] is False


def test_a_request_for_both_legs_is_one_for_prefill() -> None:
    params = {"do_remote_decode": True, "do_remote_prefill": True}

    stock().tame(params, 64)

    assert params == {"do_remote_decode": True, "do_remote_prefill": False}


@pytest.mark.parametrize(("prompt", "blocks"), [(1, 1), (16, 1), (17, 2), (64, 4), (65, 5)])
def test_a_block_too_few_is_not_read(prompt: int, blocks: int) -> None:
    assert stock().tame(from_prefill(blocks), prompt) == ""
    assert stock().tame(from_prefill(blocks - 1), prompt)


def test_every_kv_cache_group_needs_blocks() -> None:
    assert stock(groups=2).tame(from_prefill(remote_block_ids=[[1, 2, 3, 4], [4]]), 64) == ""
    assert stock(groups=2).tame(from_prefill(remote_block_ids=[[1, 2, 3, 4], []], remote_request_id="s"), 64)


def test_a_handle_is_read_once() -> None:
    params = stock()

    assert params.tame(from_prefill(), 64) == ""
    assert "read once" in params.tame(again := from_prefill(), 64)
    assert again["do_remote_prefill"] is False


def test_the_same_request_id_of_another_engine_is_another_handle() -> None:
    params = stock()

    assert params.tame(from_prefill(), 64) == ""
    assert params.tame(from_prefill(remote_engine_id="q"), 64) == ""


def test_a_handle_that_was_refused_has_not_been_read() -> None:
    params = stock()
    params.tame(from_prefill(remote_block_ids=[[]]), 64)

    assert params.tame(from_prefill(), 64) == ""


@pytest.mark.parametrize("params", [{}, {"x": 1}, {"do_remote_prefill": False}, {"do_remote_prefill": None}])
def test_other_parameters_are_none_of_our_business(params: dict[str, Any]) -> None:
    before = dict(params)

    assert stock().tame(params, 64) == ""
    assert params == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70000) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


NAMES = st.sampled_from([*from_prefill(), "dcp_size", "pp_size", "remote_num_tokens", "remote_blocks_expiry_time"])


@given(st.dictionaries(NAMES, JSON), st.integers(1, 200))
def test_whatever_comes_is_complete_or_not_read(params: dict[str, Any], prompt: int) -> None:
    stock().tame(params, prompt)

    assert "remote_blocks_expiry_time" not in params
    if params.get("do_remote_decode"):
        assert not params.get("remote_block_ids")
        assert not params.get("do_remote_prefill")
    elif params.get("do_remote_prefill"):
        assert isinstance(params["remote_engine_id"], str)
        assert isinstance(params["remote_request_id"], str)
        assert isinstance(params["remote_host"], str)
        assert isinstance(params["remote_port"], int)
        assert isinstance(params["tp_size"], int)
        assert len(params["remote_block_ids"][0]) >= -(-prompt // BLOCK)


@given(st.dictionaries(NAMES, JSON))
def test_what_is_wrong_in_one_place_only_is_not_read(changes: dict[str, Any]) -> None:
    params = from_prefill() | changes | {"do_remote_prefill": True, "do_remote_decode": False}

    stock().tame(params, 64)

    if params["do_remote_prefill"]:
        assert all(params.get(size, 1) > 0 for size in ("tp_size", "dcp_size", "pp_size"))
        assert isinstance(params["remote_port"], int)
