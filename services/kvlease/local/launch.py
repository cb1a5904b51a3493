"""How an engine is started: its command line and environment, as pure functions of what is asked for."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from kvlease.local import model
from kvlease.local.install import Installation

HOST = "127.0.0.1"
CONTEXT = 16_384  # tokens of prompt and answer
_KV_GIB = "1"  # 2,048 blocks of 128 tokens
_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": _KV_GIB,
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "UCX_TLS": "tcp,shm,self,cma",
    "UCX_NET_DEVICES": "lo",
    "UCX_RCACHE_MAX_UNRELEASED": "1024",  # as vLLM sets it, if it comes before NIXL
    "PYTHONUNBUFFERED": "1",
}


class Role(StrEnum):
    """What an engine does; its value names it."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Where an engine's connector finds the services, as host:port."""

    registry: str
    router: str


@dataclass(frozen=True, slots=True)
class Launch:
    """All that makes one engine; the same value starts the same engine again, on the same ports."""

    name: str
    role: Role
    installation: Installation
    model: Path
    http_port: int
    side_port: int  # NIXL's side channel
    control: ControlPlane | None  # None: the stock NixlConnector, which knows no control plane
    blocks: int | None = None  # KV blocks in the pool; None: what 1 GiB holds
    prefix_caching: bool = True
    connector: Mapping[str, Any] = field(default_factory=dict)  # more of kv_connector_extra_config
    arguments: Sequence[str] = ()  # more of vLLM's
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.http_port}"


def command(launch: Launch) -> list[str]:
    blocks = () if launch.blocks is None else ("--num-gpu-blocks-override", str(launch.blocks))
    caching = "--enable-prefix-caching" if launch.prefix_caching else "--no-enable-prefix-caching"
    return [
        *(sys.executable, "-m", "kvlease.local.serve"),
        *("--model", str(launch.model), "--served-model-name", model.NAME),
        *("--host", HOST, "--port", str(launch.http_port)),
        *("--dtype", "float32", "--enforce-eager", "--max-model-len", str(CONTEXT)),
        *("--kv-transfer-config", json.dumps(_transfer(launch))),
        *(caching, *blocks, *launch.arguments),
    ]


def environment(launch: Launch, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(launch.installation.folder), base.get("PYTHONPATH", "")]))
    side_channel = {"VLLM_NIXL_SIDE_CHANNEL_HOST": HOST, "VLLM_NIXL_SIDE_CHANNEL_PORT": str(launch.side_port)}
    services = {}
    if launch.control:
        services = {
            "KVLEASE_REGISTRY": launch.control.registry,
            "KVLEASE_ROUTER": launch.control.router,
            "KVLEASE_HTTP_URL": launch.url,
            "KVLEASE_ENGINE_ID": launch.name,
        }
    return {**base, **_ENVIRONMENT, **side_channel, **services, "PYTHONPATH": path, **launch.environment}


def _transfer(launch: Launch) -> dict[str, Any]:
    ours = {"kv_connector_module_path": "kvlease.connector.nixl"} if launch.control else {}
    return {
        "kv_connector": "NixlConnector",
        **ours,
        "kv_role": "kv_producer" if launch.role is Role.PREFILL else "kv_consumer",
        "kv_buffer_device": "cpu",
        "kv_connector_extra_config": {
            "bidirectional_kv_xfer": True,
            "kv_recompute_threshold": 64,
            **launch.connector,
        },
    }
