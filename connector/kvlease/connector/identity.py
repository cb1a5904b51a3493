"""Who this engine is, as the registry sees it: read from vLLM's configuration."""

import hashlib
import json
from typing import Any

from kvlease.connector.ranks import rank_of
from kvlease.connector.settings import Settings
from kvlease.connector.versions import VLLM_VERSION
from kvlease.v1.lease_pb2 import EngineRef
from kvlease.v1.registry_pb2 import Engine, EngineRole

CONNECTOR_VERSION = "1"  # of what is in a handle and how it is read

_ROLES = {"kv_producer": EngineRole.ENGINE_ROLE_PREFILL, "kv_consumer": EngineRole.ENGINE_ROLE_DECODE}


def nixl_engine_id(config: Any) -> str:
    """Returns NIXL's engine id: vLLM's, made new at every start even where an operator configured a fixed one.

    Scheduler and workers of one start must agree on it without talking, so it is made of what both are handed.
    """
    return f"{config.kv_transfer_config.engine_id}.{config.instance_id}"


def kv_layout(config: Any) -> str:
    """Returns a fingerprint of all that two engines must share to read each other's KV."""
    model, cache, parallel = config.model_config, config.cache_config, config.parallel_config
    facts = {
        "vllm": VLLM_VERSION,
        "model": model.model,
        "revision": model.revision,
        "dtype": str(model.dtype),
        "kv_heads": model.get_total_num_kv_heads(),
        "head_size": model.get_head_size(),
        "layers": model.get_total_num_hidden_layers(),
        "cache_dtype": str(cache.cache_dtype),
        "block_size": cache.block_size,
        "pipeline": parallel.pipeline_parallel_size,
        "backends": sorted(config.kv_transfer_config.get_from_extra_config("backends", ["UCX"])),
    }
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8).hexdigest()


def parameters(scheduler: Any) -> dict[str, Any]:
    """Returns what a reader needs to find the engine of a stock scheduler through NIXL."""
    parallel = scheduler.vllm_config.parallel_config
    return {
        "remote_engine_id": scheduler.engine_id,
        "remote_host": scheduler.side_channel_host,
        "remote_port": scheduler.side_channel_port,
        "tp_size": getattr(scheduler, "transfer_tp_size", parallel.tensor_parallel_size),
        "dcp_size": parallel.decode_context_parallel_size,
        "pp_size": parallel.pipeline_parallel_size,
    }


def describe(config: Any, settings: Settings, *, role: str, side_channel: str, total_blocks: int) -> Engine:
    """Describes the engine; *role* is `kv_role` as the operator set it, *side_channel* NIXL's host and port."""
    model, rank = config.model_config, rank_of(config)
    name = settings.engine_id + rank.suffix if settings.engine_id else side_channel  # which is each rank's own
    names = model.served_model_name or model.model
    return Engine(
        ref=EngineRef(engine_id=name, incarnation=nixl_engine_id(config)),
        role=_ROLES.get(role, EngineRole.ENGINE_ROLE_BOTH),
        models=[names] if isinstance(names, str) else names,
        http_url=settings.http_url,
        data_parallel_rank=rank.index,
        data_parallel_size=rank.count,
        vllm_version=VLLM_VERSION,
        kv_layout=kv_layout(config),
        block_size=config.cache_config.block_size,
        total_blocks=total_blocks,
        digest_key_id=settings.digest_key.key_id,
        bidirectional=settings.bidirectional,
        connector_version=CONNECTOR_VERSION,
    )
