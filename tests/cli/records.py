"""Engines as a registry tells of them."""

from typing import Any

from kvlease.client.types import Engine, EngineLoad, EngineRef, EngineRole


def engine(name: str, **more: Any) -> Engine:
    told: dict[str, Any] = {
        "ref": EngineRef(name, "1"),
        "role": EngineRole.BOTH,
        "models": ("m",),
        "http_url": "http://127.0.0.1:1",
        "data_parallel_rank": 0,
        "data_parallel_size": 1,
        "vllm_version": "0.29.0",
        "kv_layout": "layout",
        "block_size": 16,
        "total_blocks": 1000,
        "digest_key_id": "key",
        "bidirectional": True,
        "connector_version": "1",
        "healthy": True,
        "draining": False,
        "silent": 0.5,
        "load": EngineLoad(running=0, waiting=0, free_blocks=900, leased_blocks=100),
        "leases": 1,
        "leased_blocks": 100,
        "claimed_blocks": 0,
        "retention_budget_blocks": 500,
    }
    return Engine(**told | more)
