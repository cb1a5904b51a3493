"""The connector in vLLM's workers, over a real NIXL agent: what the scheduler gave up is reported once, as failed."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from vllm.config import set_current_vllm_config
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.metadata import NixlConnectorMetadata
from vllm.distributed.parallel_state import (
    cleanup_dist_env_and_memory,
    init_distributed_environment,
    initialize_model_parallel,
)
from vllm.platforms import current_platform
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

from kvlease.connector.nixl import NixlConnector
from kvlease.connector.settings import SettingsError
from kvlease.connector.versions import REPORTS_FAILED_REQUESTS
from kvlease.connector.worker import LeasingWorker
from tests.connector.vllm.engine import config

BLOCK = 32  # what vLLM's attention on CPUs takes
pytestmark = pytest.mark.skipif(
    current_platform.device_type != "cpu", reason="this vLLM was built for a device that is not here"
)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """vLLM's process group of one worker, and its configuration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UCX_TLS", "tcp,shm,self")
        patch.setenv("UCX_NET_DEVICES", "lo")
        folder = tmp_path_factory.mktemp("worker")
        made = config(folder, transfer={"kv_role": "kv_both"}, extra={}, batch=2048, caching=True, asynchronous=False)
        made.cache_config.block_size = BLOCK
        if hasattr(made.cache_config, "kv_cache_layout"):
            made.cache_config.kv_cache_layout = "LBNHC"
        with set_current_vllm_config(made):
            init_distributed_environment(1, 0, f"file://{folder}/store", 0, backend="gloo")
            initialize_model_parallel(1)
            yield made
            cleanup_dist_env_and_memory()


class Agent:
    """NIXL as far as reads under way need it: transfers by name, which can be let go of or not."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.released: list[str] = []
        self.refuses: set[str] = set()

    def check_xfer_state(self, transfer: str) -> str:
        return self.states[transfer]

    def release_xfer_handle(self, transfer: str) -> None:
        if transfer in self.refuses:
            raise RuntimeError("NIXL_ERR_NOT_ALLOWED")
        self.released.append(transfer)

    def get_new_notifs(self) -> dict[str, list[bytes]]:
        return {}


def cache() -> KVCacheConfig:
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=32, dtype=torch.float32)
    return KVCacheConfig(num_blocks=101, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])


@pytest.fixture
def worker(alone: Any) -> Iterator[LeasingWorker]:
    """A worker as vLLM makes it, but for its KV cache and the agent that moves it."""
    connector = NixlConnector(alone, KVConnectorRole.WORKER, cache())
    worker = connector.connector_worker
    worker.transfer_topo = object()  # made when KV caches are registered
    real, worker.nixl_wrapper = worker.nixl_wrapper, Agent()
    yield worker
    worker._recving_transfers.clear()
    worker.nixl_wrapper = real
    connector.shutdown()


@pytest.fixture
def agent(worker: LeasingWorker) -> Agent:
    made: Agent = worker.nixl_wrapper
    return made


def step(worker: LeasingWorker, *, thrown_away: Any = None, abandoned: Any = ()) -> tuple[set[str], set[Any]]:
    """One step; returns the requests reported as done, and what is reported as failed: requests, or blocks."""
    metadata = NixlConnectorMetadata()
    if thrown_away:
        metadata.kvlease_thrown_away, metadata.kvlease_abandoned = dict(thrown_away), set(abandoned)
    worker.start_load_kv(metadata)
    if REPORTS_FAILED_REQUESTS:
        results = worker.get_transfer_results()
        return set(results.finished_recving), set(results.failed_recving)
    _, received = worker.get_finished()
    return set(received), set(worker.get_block_ids_with_load_errors())


def reading(worker: LeasingWorker, *transfers: str, request_id: str = "r") -> None:
    """A request whose read is under way; without transfers it waits for the handshake."""
    metadata = NixlConnectorMetadata()
    remote = {"remote_engine_id": "e", "remote_request_id": "HB:t", "remote_host": "h", "remote_port": 1}
    metadata.add_new_req_to_recv(request_id, ([1, 2],), remote | {"remote_block_ids": ([7, 8],), "tp_size": 1})
    worker._recving_metadata[request_id] = metadata.reqs_to_recv[request_id]
    if transfers:
        worker._recving_transfers[request_id] = list(transfers)
        worker.nixl_wrapper.states |= dict.fromkeys(transfers, "PROC")


FAILED: set[Any] = {"r"} if REPORTS_FAILED_REQUESTS else {1, 2}


def test_a_parked_request_that_is_thrown_away_is_reported_once_as_failed(worker: LeasingWorker) -> None:
    assert step(worker, thrown_away={"r": [1, 2]}) == ({"r"}, FAILED)
    assert step(worker) == (set(), set())


def test_a_read_that_was_given_up_is_reported_once_whatever_becomes_of_it(worker: LeasingWorker, agent: Agent) -> None:
    reading(worker, "x", "y")
    assert step(worker) == (set(), set())

    assert step(worker, thrown_away={"r": [1, 2]}, abandoned=["r"]) == ({"r"}, FAILED)

    agent.states["x"] = "ERR"
    assert step(worker) == (set(), set())
    assert agent.released == ["x", "y"]


def test_a_transfer_that_nixl_cannot_cancel_stops_nobody_and_is_cancelled_later(
    worker: LeasingWorker, agent: Agent
) -> None:
    reading(worker, "x")
    agent.refuses = {"x"}
    assert step(worker, thrown_away={"r": [1, 2]}, abandoned=["r"]) == ({"r"}, FAILED)
    assert agent.released == []

    agent.refuses.clear()
    for _ in range(2):
        assert step(worker) == (set(), set())

    assert agent.released == ["x"]


def test_a_handshake_that_ends_after_its_request_was_given_up_starts_no_read(worker: LeasingWorker) -> None:
    reading(worker)
    ready = worker._recving_metadata["r"]
    step(worker, thrown_away={"r": [1, 2]}, abandoned=["r"])

    worker._ready_requests.put(("r", ready))

    assert step(worker) == (set(), set())
    assert "r" not in worker._recving_transfers
    assert "r" not in worker._recving_metadata


def test_a_handshake_that_fails_after_its_request_was_given_up_is_not_reported_again(worker: LeasingWorker) -> None:
    reading(worker)
    step(worker, thrown_away={"r": [1, 2]}, abandoned=["r"])

    worker._failed_recv_reqs.put("r")

    received, _ = step(worker)
    assert received == set()


def test_a_read_whose_end_was_reported_before_it_was_given_up_is_not_reported_again(worker: LeasingWorker) -> None:
    reading(worker)
    worker._failed_recv_reqs.put("r")
    received, _ = step(worker)
    assert received == {"r"}

    assert step(worker, thrown_away={"r": [1, 2]}, abandoned=["r"]) == (set(), set())


def test_others_that_fail_are_reported_as_ever(worker: LeasingWorker) -> None:
    reading(worker, "x")
    reading(worker, request_id="other")
    worker._failed_recv_reqs.put("other")

    received, _ = step(worker, thrown_away={"r": [1, 2]}, abandoned=["r"])

    assert received == {"r", "other"}


def test_a_back_end_that_nixl_does_not_have_is_refused_in_words(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(alone.kv_transfer_config.kv_connector_extra_config, "backends", ["NONESUCH"])

    with pytest.raises(SettingsError, match=r"NIXL has no backends \['NONESUCH'\]"):
        NixlConnector(alone, KVConnectorRole.WORKER, cache())
