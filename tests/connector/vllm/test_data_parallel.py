"""Data-parallel ranks: what `vllm serve --data-parallel-size` makes of one configuration, and who the registry sees."""

from collections.abc import Callable
from typing import Any

import pytest

from kvlease.connector import identity
from kvlease.v1.registry_pb2 import Engine as Told
from tests.connector.vllm.engine import Engine

Start = Callable[..., Engine]


def told(engine: Engine, index: int, *, mixture: bool = False, **parallel: Any) -> Told:
    """Describes rank *index* of two, set as vLLM's engine core sets it before it builds its scheduler."""
    config = engine.config
    set_to = {"data_parallel_index": index, "data_parallel_rank_local": index, "data_parallel_size_local": 2}
    set_to |= {"data_parallel_size": 2} | parallel
    if not mixture:  # a rank of a dense model believes that it is alone
        set_to |= {"data_parallel_size": 1, "data_parallel_size_local": 1}
    for name, value in set_to.items():
        assert hasattr(config.parallel_config, name), f"{name} is none of vLLM's"
        setattr(config.parallel_config, name, value)
    config.kv_transfer_config.engine_id += f"_dp{index}"
    side_channel = f"10.0.0.1:{5600 + index}"
    return identity.describe(
        config, engine.leasing._settings, role="kv_both", side_channel=side_channel, total_blocks=9
    )


@pytest.mark.parametrize("mixture", [False, True])
def test_ranks_behind_one_address_are_engines_of_their_own(start: Start, mixture: bool) -> None:
    zero, one = (told(start(transfer={"engine_id": "fixed"}), index, mixture=mixture) for index in (0, 1))

    assert (zero.ref.engine_id, one.ref.engine_id) == ("me_dp0", "me_dp1")
    assert zero.ref.incarnation != one.ref.incarnation
    assert [(t.data_parallel_rank, t.data_parallel_size) for t in (zero, one)] == [(0, 2), (1, 2)]


def test_a_rank_without_a_name_is_called_by_its_own_side_channel(start: Start) -> None:
    assert told(start(kvlease_engine_id=""), 1).ref.engine_id == "10.0.0.1:5601"


def test_a_rank_with_an_address_of_its_own_is_not_steered_to(start: Start) -> None:
    one = told(start(), 1, mixture=True, data_parallel_external_lb=True, data_parallel_size_local=1)

    assert (one.ref.engine_id, one.data_parallel_rank, one.data_parallel_size) == ("me_dp1", 0, 1)


def test_ranks_behind_one_address_per_host_are_counted_on_their_host(start: Start) -> None:
    third = told(start(), 3, data_parallel_hybrid_lb=True, data_parallel_rank_local=1)

    assert (third.ref.engine_id, third.data_parallel_rank, third.data_parallel_size) == ("me_dp3", 1, 2)


def test_an_engine_without_siblings_is_called_as_it_is_told(start: Start) -> None:
    alone = start().link.engine

    assert (alone.ref.engine_id, alone.data_parallel_rank, alone.data_parallel_size) == ("me", 0, 1)
