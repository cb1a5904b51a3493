"""Model shapes: configurations without weights, for measuring what depends on sizes alone."""

from collections.abc import Mapping
from typing import Any

_SHARED = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "attention_bias": False}


def _qwen3(*, hidden: int, layers: int, heads: int, inner: int) -> dict[str, Any]:
    return _SHARED | {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "dtype": "bfloat16",
        "vocab_size": 151_936,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40_960,
        "rope_theta": 1_000_000.0,
    }


_DEEPSEEK_V2_LITE = _SHARED | {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "dtype": "bfloat16",
    "vocab_size": 102_400,
    "hidden_size": 2_048,
    "intermediate_size": 10_944,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 40_960,
    "rope_theta": 10_000.0,
    # latent attention: 576 numbers a token and layer are all its KV
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    # experts
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "moe_intermediate_size": 1_408,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "greedy",
    "scoring_func": "softmax",
    "norm_topk_prob": False,
    "routed_scaling_factor": 1.0,
}

SHAPES: Mapping[str, Mapping[str, Any]] = {
    "qwen3-32b": _qwen3(hidden=5_120, layers=64, heads=64, inner=25_600),
    "qwen3-8b": _qwen3(hidden=4_096, layers=36, heads=32, inner=12_288),
    "deepseek-v2-lite": _DEEPSEEK_V2_LITE,
}
