"""vLLM's real scheduler with a connector, and workers that only pretend: they compute nothing and read for ever."""

import functools
import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from vllm import SamplingParams
from vllm.config import CacheConfig, DeviceConfig, KVTransferConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from kvlease.connector import nixl
from kvlease.connector.link import Link
from kvlease.connector.scheduler import LeasingScheduler
from kvlease.connector.turn import Answer, Turn

BLOCK, BLOCKS = 16, 120_000
LENGTH = 131_072
PROMPT = 24_000  # tokens of a request that waits
MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "intermediate_size": 64,
    "vocab_size": 4096,
    "max_position_embeddings": LENGTH,
    "torch_dtype": "float32",
}
NAMES = itertools.count()
init_none_hash(sha256)


class SilentLink(Link):
    """The link, with a control plane that never says anything about long prompts, and no lease for short ones."""

    def ask(self, turn: Turn) -> None:
        """Lets a long prompt wait for ever."""
        if turn.prompt_tokens >= PROMPT:
            turn.deadline = math.inf
        elif turn.settle(Answer(miss="NO_LEASE")):
            self.answered.append(turn)


class Engine:
    """One engine; `step` is what vLLM's engine core does between two runs of the model."""

    def __init__(self, folder: Path, *, ours: bool, extra: dict[str, Any]) -> None:
        """Takes what stands in `kv_connector_extra_config`."""
        (folder / "config.json").write_text(json.dumps(MODEL))
        transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
        if ours:
            transfer["kv_connector_module_path"] = "kvlease.connector.nixl"
            made: Any = functools.partial(LeasingScheduler, link=SilentLink)
            nixl.LeasingScheduler = made  # type: ignore[attr-defined]
        self._config = VllmConfig(
            model_config=ModelConfig(
                model=str(folder), skip_tokenizer_init=True, dtype="float32", max_model_len=LENGTH
            ),
            scheduler_config=SchedulerConfig(
                max_num_seqs=256, max_num_batched_tokens=16_384, max_model_len=LENGTH, is_encoder_decoder=False
            ),
            cache_config=CacheConfig(block_size=BLOCK, enable_prefix_caching=True),
            kv_transfer_config=KVTransferConfig(
                kv_connector_extra_config={"bidirectional_kv_xfer": True} | extra, **transfer
            ),
            device_config=DeviceConfig("cpu"),
        )
        self._config.scheduler_config.async_scheduling = False
        self._config.cache_config.num_gpu_blocks = BLOCKS
        spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=32, dtype=torch.float32)
        self.scheduler = Scheduler(
            vllm_config=self._config,
            kv_cache_config=KVCacheConfig(
                num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
            ),
            structured_output_manager=StructuredOutputManager(self._config),
            block_size=BLOCK,
        )
        self.leasing = cast("LeasingScheduler", self.scheduler.connector.connector_scheduler)

    def add(self, prompt: Sequence[int], transfer: dict[str, Any] | None = None, *, words: int) -> None:
        """Adds a request that is answered with so many tokens."""
        sampling = SamplingParams(max_tokens=words, ignore_eos=True)
        sampling.extra_args = {"kv_transfer_params": transfer}
        request = Request(
            request_id=f"request-{next(NAMES)}",
            prompt_token_ids=list(prompt),
            sampling_params=sampling,
            pooling_params=None,
            block_hasher=get_request_block_hasher(BLOCK, sha256),
        )
        self.scheduler.add_request(request)

    def step(self, clock: Callable[[], float] = lambda: 0.0) -> float:
        """Takes one step; returns what the scheduler took, by that clock."""
        begun = clock()
        scheduled = self.scheduler.schedule()
        spent = clock() - begun
        output = self._run(scheduled)
        begun = clock()
        self.scheduler.update_from_output(scheduled, output)
        self.scheduler.has_requests()
        return spent + clock() - begun

    def run(self) -> None:
        """Steps until all requests are answered."""
        while self.scheduler.get_num_unfinished_requests():
            self.step()

    def close(self) -> None:
        """Ends the connector's threads too."""
        self.scheduler.shutdown()

    def _run(self, scheduled: Any) -> ModelRunnerOutput:
        names = list(scheduled.num_scheduled_tokens)
        return ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[[1] for _ in names],
            kv_connector_output=KVConnectorOutput(),
        )
