"""How stacks are started."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.multiturn import cuda, options
from benchmarks.multiturn.stacks import Prepared, Serving, prepare
from kvlease.local import install
from kvlease.local.install import Installation
from kvlease.local.launch import Role


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """vLLM is there, on CPU and for GPUs."""
    monkeypatch.setattr(install, "find", lambda version: Installation(version, tmp_path))
    monkeypatch.setattr(cuda, "installation", lambda: Installation("0.26.0", tmp_path))


def serving(stack: str, *arguments: str) -> Serving:
    parser = argparse.ArgumentParser()
    options.add_serving(parser)
    return options.serving(parser.parse_args(arguments), stack)


def prepared(stack: str, logs: Path, *arguments: str) -> Prepared:
    return prepare(serving(stack, *arguments), logs=logs)


def transfer(made: Prepared, role: Role) -> dict[str, Any]:
    command = made.engines.of(role)[0].command
    config: dict[str, Any] = json.loads(command[command.index("--kv-transfer-config") + 1])
    return config


def test_stock_is_two_engines_and_nothing_else(tmp_path: Path) -> None:
    made = prepared("stock", tmp_path)

    assert not made.services
    assert made.stack.gateway == ""
    assert "kv_connector_module_path" not in transfer(made, Role.DECODE)


def test_kvlease_has_its_services_in_processes_of_their_own(tmp_path: Path) -> None:
    made = prepared("kvlease", tmp_path)

    assert [service.name for service in made.services] == ["registry", "router", "gateway"]
    assert transfer(made, Role.PREFILL)["kv_connector_module_path"] == "kvlease.connector.nixl"


@pytest.mark.parametrize("machine", [[], ["--gpus", "0/1", "--model", "qwen3-8b"]], ids=["cpu", "gpus"])
@pytest.mark.parametrize("stack", ["stock", "kvlease"])
def test_only_prefill_runs_without_a_prefix_cache(stack: str, machine: list[str], tmp_path: Path) -> None:
    made = prepared(stack, tmp_path, *machine)

    assert "--no-enable-prefix-caching" in made.engines.of(Role.PREFILL)[0].command
    assert "--enable-prefix-caching" in made.engines.of(Role.DECODE)[0].command


def test_engines_on_gpus_each_have_their_own(tmp_path: Path) -> None:
    wanted = serving("kvlease", "--gpus", "0/1", "--model", "qwen3-8b")
    made = prepare(wanted, logs=tmp_path)

    assert wanted.cuda is not None
    shown = [cuda.environment(engine.launch, wanted.cuda, {})["CUDA_VISIBLE_DEVICES"] for engine in made.engines]
    assert shown == ["0", "1"]
    assert "kv_buffer_device" not in transfer(made, Role.DECODE)  # vLLM's own choice is the device


def test_haste_shortens_the_lives_of_kept_blocks_on_both_stacks(tmp_path: Path) -> None:
    stock, ours = (prepared(stack, tmp_path, "--haste", "10") for stack in ("stock", "kvlease"))

    assert transfer(stock, Role.DECODE)["kv_connector_extra_config"]["decoder_kv_blocks_ttl"] == 48
    registry = ours.services[0].command
    assert registry[registry.index("--answered-ttl") + 1] == "6s"


def test_what_is_given_for_one_stack_is_given_for_the_other(tmp_path: Path) -> None:
    more = ["--connector", 'enable_cross_layers_blocks="True"', "--engine-option=--block-size=64", "--blocks", "99"]
    for stack in ("stock", "kvlease"):
        made = prepared(stack, tmp_path, *more)

        assert transfer(made, Role.PREFILL)["kv_connector_extra_config"]["enable_cross_layers_blocks"] == "True"
        assert "--block-size=64" in made.engines.of(Role.PREFILL)[0].command
        assert "99" in made.engines.of(Role.DECODE)[0].command
        assert "99" not in made.engines.of(Role.PREFILL)[0].command


def test_devices_of_one_engine_alone_are_refused() -> None:
    with pytest.raises(ValueError, match="0/1"):
        serving("stock", "--gpus", "0")
