"""Weights that are drawn."""

import importlib

import pytest

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]


def test_vllm_knows_the_format_and_draws_by_name_and_shape() -> None:
    pytest.importorskip("vllm")
    torch = importlib.import_module("torch")
    server = importlib.import_module("benchmarks.multiturn.server")
    loaders = importlib.import_module("vllm.model_executor.model_loader")
    load = importlib.import_module("vllm.config.load")
    matrix, norm, bias = torch.empty(400, 256), torch.empty(64), torch.empty(64)
    generator = torch.Generator().manual_seed(1)

    for name, weight in (("o_proj.weight", matrix), ("q_norm.weight", norm), ("gate.bias", bias)):
        server.draw(name, weight, generator)

    assert type(loaders.get_model_loader(load.LoadConfig(load_format="drawn"))) is server.DrawnModelLoader
    assert float(matrix.std()) == pytest.approx(server.WIDTH / 16, rel=0.02)
    assert set(norm.tolist()) == {server.FOCUS}
    assert not bias.any()
