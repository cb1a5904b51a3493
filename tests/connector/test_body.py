"""The body of a handle, from and to vLLM's transfer parameters."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.connector import body
from kvlease.connector.body import BadBodyError
from kvlease.v1.nixl_pb2 import BlockList, NixlBody

NAMES = st.text(max_size=20)
IDS = st.lists(st.integers(0, 2**32 - 1), max_size=20)
SMALL_IDS = st.lists(st.integers(0, 2**16 - 1), max_size=20)
PARAMETERS = st.fixed_dictionaries(
    {
        "remote_engine_id": NAMES,
        "remote_host": NAMES,
        "remote_port": st.integers(0, 65535),
        "tp_size": st.integers(1, 64),
        "dcp_size": st.integers(1, 64),
        "pp_size": st.integers(1, 64),
    },
    optional={
        "remote_num_tokens": st.integers(0, 2**31),
        "remote_registration_generation": st.integers(0, 2**31),
        "transfer_mode": st.just("pull"),
    },
)
ADDRESS = {"remote_engine_id": "e", "remote_host": "h", "remote_port": 1}


@given(PARAMETERS, st.lists(IDS | SMALL_IDS, max_size=3))
def test_a_reader_gets_what_the_owner_wrote(params: dict[str, Any], groups: list[list[int]]) -> None:
    assert body.decode(body.encode(params, groups)) == params | {"remote_block_ids": tuple(groups)}


def test_sizes_that_are_not_named_are_one() -> None:
    read = body.decode(body.encode(ADDRESS, [[1]]))

    assert (read["tp_size"], read["dcp_size"], read["pp_size"]) == (1, 1, 1)
    assert body.decode(NixlBody(host="h").SerializeToString())["tp_size"] == 1


@pytest.mark.parametrize(("largest", "width"), [(65535, 2), (65536, 3), (1 << 24, 4)])
def test_block_ids_take_as_few_bytes_as_the_largest_needs(largest: int, width: int) -> None:
    (group,) = NixlBody.FromString(body.encode(ADDRESS, [[0, largest]])).groups

    assert (group.width, len(group.ids)) == (width, 2 * width)
    assert group.ids == b"".join(i.to_bytes(width, "little") for i in (0, largest))


def test_a_handle_of_a_million_tokens_is_small() -> None:
    assert len(body.encode(ADDRESS, [range(1_000_000 // 16)])) < 130_000


@pytest.mark.parametrize(
    "bad",
    [
        b"\xff",
        NixlBody(groups=[BlockList(width=1, ids=b"abc")]).SerializeToString(),
        NixlBody(groups=[BlockList(width=2, ids=b"abc")]).SerializeToString(),
        NixlBody(extra_json=b"{").SerializeToString(),
        NixlBody(extra_json=b"\xff\xff").SerializeToString(),
        NixlBody(extra_json=json.dumps(["a list"]).encode()).SerializeToString(),
        NixlBody(extra_json=b"null").SerializeToString(),
    ],
)
def test_what_is_no_body_is_refused(bad: bytes) -> None:
    with pytest.raises(BadBodyError, match="nixl/1"):
        body.decode(bad)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(BadBodyError):
        body.decode(data)
