"""An engine on a GPU: vLLM as it is installed there, on the devices that it is shown."""

import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.multiturn.models import Model
from kvlease.local.engine import Engine
from kvlease.local.install import EngineUnavailable, Installation
from kvlease.local.launch import HOST, Launch, Role
from kvlease.local.process import Process

_GRACE = 15.0  # seconds that an engine has to end by itself
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True, slots=True)
class Cuda:
    """What engines get of the machine."""

    prefill: str  # CUDA_VISIBLE_DEVICES; the first of them is used
    decode: str
    memory: float  # share of the device's

    def devices(self, role: Role) -> str:
        return self.prefill if role is Role.PREFILL else self.decode


class CudaEngine(Engine):
    """A vLLM server on a GPU."""

    def __init__(self, launch: Launch, model: Model, cuda: Cuda, *, logs: Path) -> None:
        Process.__init__(
            self,
            launch.name,
            command(launch, model, cuda),
            environment=environment(launch, cuda),
            log=logs / f"{launch.name}.log",
            grace=_GRACE,
        )
        self.launch = launch


def installation() -> Installation:
    """The vLLM that this Python imports.

    Raises:
        EngineUnavailable: there is none.
    """
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        raise EngineUnavailable("this Python finds no vllm: put it on PYTHONPATH")
    return Installation(importlib.metadata.version("vllm"), Path(found.origin).parents[1])


def command(launch: Launch, model: Model, cuda: Cuda) -> list[str]:
    blocks = () if launch.blocks is None else ("--num-gpu-blocks-override", str(launch.blocks))
    caching = "--enable-prefix-caching" if launch.prefix_caching else "--no-enable-prefix-caching"
    return [
        *(sys.executable, "-m", "benchmarks.multiturn.server"),
        *("--model", str(launch.model), "--load-format", model.load_format),
        *("--host", HOST, "--port", str(launch.http_port)),
        *("--enforce-eager", "--gpu-memory-utilization", str(cuda.memory)),
        *("--kv-transfer-config", json.dumps(_transfer(launch))),
        *(caching, *blocks, *launch.arguments),
    ]


def environment(launch: Launch, cuda: Cuda, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the engine sees; whatever the caller has set for UCX or NCCL stays."""
    services = {}
    if launch.control:
        services = {
            "KVLEASE_REGISTRY": launch.control.registry,
            "KVLEASE_ROUTER": launch.control.router,
            "KVLEASE_HTTP_URL": launch.url,
            "KVLEASE_ENGINE_ID": launch.name,
        }
    return {
        **base,
        **_ENVIRONMENT,
        **services,
        "CUDA_VISIBLE_DEVICES": cuda.devices(launch.role),
        "VLLM_NIXL_SIDE_CHANNEL_HOST": HOST,
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(launch.side_port),
        **launch.environment,
    }


def _transfer(launch: Launch) -> dict[str, Any]:
    ours = {"kv_connector_module_path": "kvlease.connector.nixl"} if launch.control else {}
    return {
        "kv_connector": "NixlConnector",
        **ours,
        "kv_role": "kv_producer" if launch.role is Role.PREFILL else "kv_consumer",
        "kv_connector_extra_config": {
            "bidirectional_kv_xfer": True,
            "kv_recompute_threshold": 64,
            **launch.connector,
        },
    }
