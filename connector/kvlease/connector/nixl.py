"""What vLLM loads: `--kv-transfer-config` with `"kv_connector_module_path": "kvlease.connector.nixl"`.

The class is called `NixlConnector` because vLLM looks for that name in places. It forwards, and nothing else.
"""

# ruff: noqa: E402 - the version is checked before what other versions do not have is imported

import os
from collections.abc import Iterable
from typing import Any

from kvlease.connector import versions

versions.check()

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector import NixlBaseConnector, NixlPullConnector

from kvlease.connector import identity, refusals
from kvlease.connector.scheduler import LeasingScheduler
from kvlease.connector.settings import Settings
from kvlease.connector.stats import LeaseMetrics, LeaseStats
from kvlease.connector.worker import LeasingWorker


class NixlConnector(NixlPullConnector):  # type: ignore[misc]
    """NIXL's pull connector, with decode's and prefill's KV under leases."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        """Refuses what cannot work, in words, before the engine serves.

        Raises:
            UnsupportedVllmError: This model on this vLLM is not supported.
            SettingsError: A setting cannot be used.
        """
        refusals.check_alone()
        versions.check_groups(len(kv_cache_config.kv_cache_groups))
        NixlBaseConnector.__init__(self, vllm_config, role, kv_cache_config)
        transfer = vllm_config.kv_transfer_config
        refusals.check_buffer(transfer)
        if role == KVConnectorRole.WORKER:
            nixl_engine_id = identity.nixl_engine_id(vllm_config)
            self.connector_worker = refusals.with_backends(
                transfer, lambda: LeasingWorker(vllm_config, nixl_engine_id, kv_cache_config)
            )
            return
        settings = Settings.of(transfer.kv_connector_extra_config, os.environ)
        self.connector_scheduler = LeasingScheduler(vllm_config, kv_cache_config, settings, role=transfer.kv_role)
        # vLLM's scheduler reads these after this constructor: failed reads are recomputed, and blocks that a step in
        # flight may still write are not handed to a read
        transfer.kv_load_failure_policy = "recompute"
        transfer.kv_role = "kv_both"

    def reset_cache(self) -> bool:
        """Tells whether KV may be discarded; gives leases back where it may not yet."""
        return self.connector_scheduler.reset_cache()

    def take_events(self) -> Iterable[Any]:
        """Has no events: vLLM asks at the end of each step, which is when to look what has come from the link."""
        self.connector_scheduler.take_answers()
        return ()

    def get_kv_connector_stats(self) -> LeaseStats | None:
        """Returns what is new, from the scheduler or from this worker."""
        if self.connector_scheduler is not None:
            return self.connector_scheduler.stats()
        theirs = super().get_kv_connector_stats()
        return None if theirs is None else LeaseStats(data=theirs.data)

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> LeaseStats:
        """Returns the stats whose data vLLM has carried to another process."""
        return LeaseStats(data=data) if data else LeaseStats()

    @classmethod
    def build_prom_metrics(cls, *args: Any) -> LeaseMetrics:
        """Registers our metrics on vLLM's `/metrics`."""
        return LeaseMetrics(*args)

    def bind_gpu_block_pool(self, gpu_block_pool: Any) -> None:
        """Hands the pool over; vLLM calls this once its scheduler is complete."""
        self.connector_scheduler.bind_gpu_block_pool(gpu_block_pool)
