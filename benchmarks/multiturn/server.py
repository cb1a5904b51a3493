"""vLLM's own server, with one load format more: `drawn`, for shapes without weights.

vLLM's `dummy` weights are so small that all tokens are equally likely, whatever the prompt; no comparison of answers
would see wrong KV. Drawn matrices have a standard deviation of about 1.6 / sqrt(fan-in), as in the tiny model. The
same seed gives the same weights in every engine of one kind of device. vLLM's subprocesses import this module first.
"""

import runpy

import torch
from vllm.config import ModelConfig
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.base_loader import BaseModelLoader

SEED = 20_260_101
WIDTH = 1.6  # standard deviation of a matrix, times the square root of its fan-in
FOCUS = 2.5  # weight of the query norm, where there is one: attention picks few tokens, however long the prompt is


@register_model_loader("drawn")
class DrawnModelLoader(BaseModelLoader):  # type: ignore[misc]  # vLLM is untyped here
    """Draws every weight on the device on which it lies."""

    def download_model(self, model_config: ModelConfig) -> None:
        """There is nothing to download."""

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def load_weights(self, model: torch.nn.Module, model_config: ModelConfig) -> None:  # noqa: ARG002
        """Draws in the order of the parameters."""
        generator = torch.Generator(device=next(model.parameters()).device).manual_seed(SEED)
        for name, weight in model.named_parameters():
            draw(name, weight, generator)


def draw(name: str, weight: torch.Tensor, generator: torch.Generator) -> None:
    """Draws one weight in place, by its name and shape."""
    if weight.dim() > 1:
        width = 1.0 if "embed_tokens" in name else WIDTH / weight.shape[-1] ** 0.5
        weight.normal_(0.0, width, generator=generator)
    elif "norm" in name:
        weight.fill_(FOCUS if "q_norm" in name else 1.0)
    else:
        weight.zero_()


if __name__ == "__main__":
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
