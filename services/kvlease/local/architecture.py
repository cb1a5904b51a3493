"""The tiny model itself: a 2.5 M parameter Qwen3, as transformers' configuration and as weights drawn from a seed.

The matrices are drawn wide and attention is sharp, so that each answer depends on all that came before: wrong KV
shows in the log-probabilities. Dimension 0 is apart: every token carries the same value there, only the output
layer reads it, and so it keeps all tokens silent but printable ASCII and the end of a message.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kvlease.local import tokenizer

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

CONTEXT = 32_768  # tokens

_SEED = 20_260_101
_LAYERS, _HIDDEN, _INNER, _HEADS, _KV_HEADS, _HEAD = 4, 256, 512, 4, 2, 64
_WIDTH = 1.6  # standard deviation of a matrix, times the square root of its fan-in
_FOCUS = 2.5  # weight of the query norm: attention picks few tokens, however long the prompt is
_VOICE = 8.0  # what every token carries in dimension 0
_SILENCE = -40.0  # how the output layer weighs it for a token that is never to be answered


def config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "dtype": "float32",
        "vocab_size": tokenizer.VOCABULARY,
        "hidden_size": _HIDDEN,
        "intermediate_size": _INNER,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "head_dim": _HEAD,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rope_theta": 10_000.0,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "eos_token_id": tokenizer.END,
        "pad_token_id": tokenizer.PAD,
    }


def weights() -> "Iterator[tuple[str, Array]]":
    """Every parameter with its name, the same on every machine."""
    draw = _Draw()
    yield "model.embed_tokens.weight", draw.embedding()
    for layer in range(_LAYERS):
        for name, weight in _layer(draw):
            yield f"model.layers.{layer}.{name}.weight", weight
    yield "model.norm.weight", draw.constant(_HIDDEN)
    yield "lm_head.weight", draw.output()


def _layer(draw: "_Draw") -> "Iterator[tuple[str, Array]]":
    yield "input_layernorm", draw.constant(_HIDDEN)
    yield "self_attn.q_proj", draw.reader(_HEADS * _HEAD)
    yield "self_attn.k_proj", draw.reader(_KV_HEADS * _HEAD)
    yield "self_attn.v_proj", draw.reader(_KV_HEADS * _HEAD)
    yield "self_attn.q_norm", draw.constant(_HEAD, _FOCUS)
    yield "self_attn.k_norm", draw.constant(_HEAD)
    yield "self_attn.o_proj", draw.writer(_HEADS * _HEAD)
    yield "post_attention_layernorm", draw.constant(_HIDDEN)
    yield "mlp.gate_proj", draw.reader(_INNER)
    yield "mlp.up_proj", draw.reader(_INNER)
    yield "mlp.down_proj", draw.writer(_INNER)


class _Draw:
    """One stream of random numbers, cut into matrices."""

    def __init__(self) -> None:
        import numpy as np  # noqa: PLC0415 - comes with the engines

        self._random = np.random.default_rng(_SEED)
        self._full = np.full

    def embedding(self) -> "Array":
        drawn = self._matrix(tokenizer.VOCABULARY, _HIDDEN, width=1.0)
        drawn[:, 0] = _VOICE
        return drawn

    def reader(self, rows: int) -> "Array":
        """A matrix that reads the residual stream, but not dimension 0."""
        drawn = self._matrix(rows, _HIDDEN, width=_WIDTH / _HIDDEN**0.5)
        drawn[:, 0] = 0
        return drawn

    def writer(self, columns: int) -> "Array":
        """A matrix that adds to the residual stream, but not to dimension 0."""
        drawn = self._matrix(_HIDDEN, columns, width=_WIDTH / columns**0.5)
        drawn[0, :] = 0
        return drawn

    def output(self) -> "Array":
        drawn = self.reader(tokenizer.VOCABULARY)
        drawn[:, 0] = [0.0 if token in tokenizer.ANSWERS else _SILENCE for token in range(tokenizer.VOCABULARY)]
        return drawn

    def constant(self, length: int, value: float = 1.0) -> "Array":
        return self._full(length, value, "float32")

    def _matrix(self, rows: int, columns: int, *, width: float) -> "Array":
        drawn: Array = self._random.standard_normal((rows, columns)) * width
        return drawn.astype("float32")
