"""The connector in vLLM's hands: loaded by its published flags, set as it must be, or refused in words."""

from collections.abc import Callable
from typing import Any

import pytest
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1 import supports_hma
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import MultiConnector
from vllm.platforms import current_platform

from kvlease.connector import identity, versions
from kvlease.connector.nixl import NixlConnector
from kvlease.connector.settings import SettingsError
from kvlease.connector.versions import REPORTS_FAILED_REQUESTS, UnsupportedVllmError
from kvlease.v1.registry_pb2 import EngineRole
from tests.connector.vllm.engine import Engine

Start = Callable[..., Engine]


def test_vllm_loads_the_class_by_the_name_that_it_looks_for(start: Start) -> None:
    engine = start()

    assert type(engine.connector) is NixlConnector
    assert NixlConnector.__name__ == "NixlConnector"
    assert KVConnectorFactory.get_connector_class(engine.config.kv_transfer_config) is NixlConnector
    assert supports_hma(NixlConnector)


@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_a_failed_read_is_computed_whatever_the_flags_say(start: Start, policy: str) -> None:
    engine = start(transfer={"kv_load_failure_policy": policy})

    assert engine.scheduler.recompute_kv_load_failures


@pytest.mark.parametrize("role", ["kv_producer", "kv_consumer", "kv_both"])
def test_blocks_that_a_step_in_flight_may_write_are_not_read_into_whatever_the_role(start: Start, role: str) -> None:
    engine = start(role=role, asynchronous=True)

    assert engine.scheduler.defer_block_free


@pytest.mark.parametrize(
    ("role", "told"),
    [
        ("kv_producer", EngineRole.ENGINE_ROLE_PREFILL),
        ("kv_consumer", EngineRole.ENGINE_ROLE_DECODE),
        ("kv_both", EngineRole.ENGINE_ROLE_BOTH),
    ],
)
def test_the_registry_is_told_the_role_that_the_operator_set(
    start: Start, role: str, told: "EngineRole.ValueType"
) -> None:
    assert start(role=role).link.engine.role == told


def test_the_registry_is_told_what_it_must_know_to_pair_engines(start: Start) -> None:
    told = start(kvlease_http_url="http://host:8000/").link.engine

    assert (told.ref.engine_id, told.http_url, told.bidirectional) == ("me", "http://host:8000", True)
    assert (told.block_size, told.total_blocks) == (16, 101)
    assert told.vllm_version == versions.VLLM_VERSION
    assert told.kv_layout
    assert told.models


def test_without_a_name_an_engine_is_called_by_its_side_channel(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_NIXL_SIDE_CHANNEL_HOST", "10.0.0.1")
    monkeypatch.setenv("VLLM_NIXL_SIDE_CHANNEL_PORT", "5611")

    assert start(kvlease_engine_id="").link.engine.ref.engine_id == "10.0.0.1:5611"


def test_the_link_starts_once_the_engine_is_complete_and_ends_with_it(start: Start) -> None:
    engine = start()
    assert engine.link.started

    engine.stop()

    assert engine.link.closed


def test_an_idle_engine_sleeps(start: Start) -> None:
    assert not start().scheduler.has_requests()


def test_every_start_has_an_incarnation_of_its_own_even_where_the_engine_id_is_fixed(start: Start) -> None:
    one, other = (start(transfer={"engine_id": "fixed"}) for _ in range(2))

    assert one.ref.incarnation != other.ref.incarnation
    assert one.leasing.engine_id == one.ref.incarnation


def test_scheduler_and_workers_agree_on_nixls_engine_id_without_talking(start: Start) -> None:
    engine = start()

    assert identity.nixl_engine_id(engine.config) == engine.leasing.engine_id


def test_two_starts_of_one_model_have_one_layout_and_another_block_size_has_another(start: Start) -> None:
    one, other = start(), start()
    layout = one.link.engine.kv_layout
    assert layout == other.link.engine.kv_layout

    other.config.cache_config.block_size = 32

    assert identity.kv_layout(other.config) != layout


def test_engines_of_other_nixl_back_ends_have_other_layouts(start: Start) -> None:
    ucx, fabric = start(), start(backends=["LIBFABRIC"])

    assert start(backends=["UCX"]).link.engine.kv_layout == ucx.link.engine.kv_layout
    assert fabric.link.engine.kv_layout != ucx.link.engine.kv_layout


# -- refusals --------------------------------------------------------------------------------------------------------


def test_this_vllm_is_one_of_those_that_are_tested() -> None:
    versions.check()


def test_models_of_several_kv_cache_groups_need_a_vllm_that_can_report_their_failed_reads(start: Start) -> None:
    if REPORTS_FAILED_REQUESTS:
        assert start(windows=[64]).leasing._groups == 2
        return

    with pytest.raises(UnsupportedVllmError, match=r"2 KV-cache groups need vLLM 0\.32 or later"):
        start(windows=[64])


def test_a_host_buffer_on_a_device_engine_is_refused(start: Start) -> None:
    if current_platform.device_type == "cpu":
        assert start(transfer={"kv_buffer_device": "cpu"}).scheduler is not None
        return

    with pytest.raises(SettingsError, match="kv_buffer_device"):
        start(transfer={"kv_buffer_device": "cpu"})


@pytest.mark.parametrize("role", list(KVConnectorRole))
def test_a_place_in_a_multi_connector_is_refused(start: Start, role: KVConnectorRole) -> None:
    engine = start()
    transfer = engine.config.kv_transfer_config
    beside = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}
    ours = {name: getattr(transfer, name) for name in ("kv_connector", "kv_connector_module_path", "kv_role")}
    transfer.kv_connector_extra_config = {"connectors": [ours, beside]}

    with pytest.raises(SettingsError, match="MultiConnector"):
        MultiConnector(engine.config, role, engine.scheduler.kv_cache_config)


@pytest.mark.parametrize(
    "bad", [{"kvlease_wait": "long"}, {"kv_recompute_threshold": "many"}, {"kvlease_http_url": "nowhere"}]
)
def test_a_setting_that_cannot_be_used_stops_the_start(start: Start, bad: dict[str, Any]) -> None:
    (name,) = bad

    with pytest.raises(SettingsError, match=f"(?i){name}"):
        start(**bad)
