"""Data-parallel ranks: what vLLM makes of `--data-parallel-size` in each rank's process, and who the registry sees."""

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from vllm.config import ModelConfig
from vllm.v1.engine import core

from kvlease.connector import identity
from kvlease.v1.registry_pb2 import Engine as Told
from tests.connector.vllm.engine import Engine

Rank = Callable[..., Told]


class Configured(Exception):
    """vLLM's engine core has configured its rank, and is about to build it."""


@pytest.fixture
def rank(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> Iterator[Rank]:
    """Lets vLLM's engine core configure one of two ranks, of dense models and of others, and describes it."""

    def configured(*_: Any, **__: Any) -> None:
        raise Configured

    for name in ("decorate_logs", "set_process_title", "maybe_init_worker_tracer"):
        monkeypatch.setattr(core, name, lambda *_: None)
    monkeypatch.setattr(core.EngineCoreProc, "__init__", configured)
    monkeypatch.setattr(core.DPEngineCoreProc, "__init__", configured)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def make(index: int, *, local: int | None = None, dense: bool = True, parallel: Any = None, **how: Any) -> Told:
        engine = start(**how)
        for name, value in ({"data_parallel_size": 2, "data_parallel_size_local": 2} | (parallel or {})).items():
            setattr(engine.config.parallel_config, name, value)
        monkeypatch.setattr(ModelConfig, "is_moe", not dense)
        local = index if local is None else local
        with pytest.raises(Configured):
            core.EngineCoreProc.run_engine_core(vllm_config=engine.config, dp_rank=index, local_dp_rank=local)
        side_channel = f"10.0.0.1:{5600 + index}"
        settings = engine.leasing._settings
        return identity.describe(engine.config, settings, role="kv_both", side_channel=side_channel, total_blocks=9)

    yield make
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("dense", [True, False])
def test_ranks_behind_one_address_are_engines_of_their_own(rank: Rank, dense: bool) -> None:
    zero, one = (rank(index, dense=dense, transfer={"engine_id": "fixed"}) for index in (0, 1))

    assert (zero.ref.engine_id, one.ref.engine_id) == ("me_dp0", "me_dp1")
    assert zero.ref.incarnation != one.ref.incarnation
    assert [(told.data_parallel_rank, told.data_parallel_size) for told in (zero, one)] == [(0, 2), (1, 2)]


def test_a_rank_without_a_name_is_called_by_its_own_side_channel(rank: Rank) -> None:
    assert rank(1, kvlease_engine_id="").ref.engine_id == "10.0.0.1:5601"


def test_a_rank_with_an_address_of_its_own_is_not_steered_to(rank: Rank) -> None:
    one = rank(1, local=0, parallel={"data_parallel_external_lb": True, "data_parallel_size_local": 1})

    assert (one.ref.engine_id, one.data_parallel_rank, one.data_parallel_size) == ("me_dp1", 0, 1)


def test_ranks_behind_one_address_per_host_are_counted_on_their_host(rank: Rank) -> None:
    third = rank(3, local=1, parallel={"data_parallel_hybrid_lb": True, "data_parallel_size": 4})

    assert (third.ref.engine_id, third.data_parallel_rank, third.data_parallel_size) == ("me_dp3", 1, 2)


def test_an_engine_without_siblings_is_called_as_it_is_told(rank: Rank) -> None:
    alone = rank(0, parallel={"data_parallel_size": 1, "data_parallel_size_local": 1})

    assert (alone.ref.engine_id, alone.data_parallel_rank, alone.data_parallel_size) == ("me", 0, 1)
