"""How an engine is started."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvlease.local.install import Installation
from kvlease.local.launch import ControlPlane, Launch, Role, command, environment

DECODE = Launch(
    name="decode-0",
    role=Role.DECODE,
    installation=Installation("0.32.0", Path("/engines/vllm-0.32.0")),
    model=Path("/cache/tiny"),
    http_port=8001,
    side_port=8002,
    control=ControlPlane("127.0.0.1:7440", "127.0.0.1:7441"),
)


def transfer(launch: Launch) -> dict[str, Any]:
    arguments = command(launch)
    config: dict[str, Any] = json.loads(arguments[arguments.index("--kv-transfer-config") + 1])
    return config


def test_an_engine_loads_our_connector_with_the_published_flags() -> None:
    assert transfer(DECODE) == {
        "kv_connector": "NixlConnector",
        "kv_connector_module_path": "kvlease.connector.nixl",
        "kv_role": "kv_consumer",
        "kv_buffer_device": "cpu",
        "kv_connector_extra_config": {"bidirectional_kv_xfer": True, "kv_recompute_threshold": 64},
    }
    assert transfer(replace(DECODE, role=Role.PREFILL))["kv_role"] == "kv_producer"


def test_without_a_control_plane_the_connector_is_the_stock_one() -> None:
    stock = replace(DECODE, control=None)

    assert "kv_connector_module_path" not in transfer(stock)
    assert not any(name.startswith("KVLEASE_") for name in environment(stock, {}))


def test_an_engine_is_told_where_the_services_are_and_how_it_is_reached() -> None:
    told = environment(DECODE, {})

    assert told["KVLEASE_REGISTRY"] == "127.0.0.1:7440"
    assert told["KVLEASE_ROUTER"] == "127.0.0.1:7441"
    assert told["KVLEASE_HTTP_URL"] == "http://127.0.0.1:8001"
    assert told["KVLEASE_ENGINE_ID"] == "decode-0"
    assert told["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "8002"


def test_its_vllm_comes_before_any_other() -> None:
    assert environment(DECODE, {"PYTHONPATH": "/mine"})["PYTHONPATH"] == "/engines/vllm-0.32.0:/mine"


def test_what_is_asked_for_goes_before_what_is_usual() -> None:
    launch = replace(
        DECODE,
        blocks=64,
        prefix_caching=False,
        connector={"kv_recompute_threshold": 0},
        arguments=["--max-num-seqs", "4"],
        environment={"OMP_NUM_THREADS": "2"},
    )

    arguments = command(launch)

    assert arguments[arguments.index("--num-gpu-blocks-override") + 1] == "64"
    assert "--no-enable-prefix-caching" in arguments
    assert arguments[-2:] == ["--max-num-seqs", "4"]
    assert transfer(launch)["kv_connector_extra_config"]["kv_recompute_threshold"] == 0
    assert environment(launch, {})["OMP_NUM_THREADS"] == "2"
