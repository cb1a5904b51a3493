"""vLLM's real scheduler with our connector, on a tiny model that is never loaded; the workers are pretended."""

import functools
import itertools
import json
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from vllm import SamplingParams
from vllm.config import CacheConfig, DeviceConfig, KVTransferConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from kvlease.connector import nixl
from kvlease.connector.link import Link
from kvlease.connector.scheduler import LeasingScheduler
from kvlease.v1.lease_pb2 import EngineRef
from tests.connector.requests import params, terms
from tests.connector.vllm.inputs import Inputs
from tests.connector.vllm.links import FakeLink
from tests.connector.vllm.memory import BLOCK, Memory, trace
from tests.connector.vllm.workers import Workers
from tests.support.clock import FakeClock

OTHER = EngineRef(engine_id="other", incarnation="1")
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
    "max_position_embeddings": 4096,
    "torch_dtype": "float32",
}
WORDS = itertools.count(2000)
NAMES = itertools.count(1)
init_none_hash(sha256)


def config(
    folder: Path, *, transfer: dict[str, Any], extra: dict[str, Any], batch: int, caching: bool, asynchronous: bool
) -> VllmConfig:
    """What `vllm serve` would make of the published start flags."""
    (folder / "config.json").write_text(json.dumps(MODEL))
    made = VllmConfig(
        model_config=ModelConfig(model=str(folder), skip_tokenizer_init=True, dtype="float32", max_model_len=2048),
        scheduler_config=SchedulerConfig(
            max_num_seqs=8, max_num_batched_tokens=batch, max_model_len=2048, is_encoder_decoder=False
        ),
        cache_config=CacheConfig(block_size=BLOCK, enable_prefix_caching=caching),
        kv_transfer_config=KVTransferConfig(
            kv_connector="NixlConnector",
            kv_connector_module_path="kvlease.connector.nixl",
            kv_connector_extra_config={"bidirectional_kv_xfer": True, "kvlease_engine_id": "me"} | extra,
            **transfer,
        ),
        device_config=DeviceConfig("cpu"),
    )
    made.scheduler_config.async_scheduling = asynchronous
    made.scheduler_config.disable_hybrid_kv_cache_manager = False  # as on devices
    return made


def kv_groups(windows: Sequence[int]) -> list[KVCacheGroupSpec]:
    """Returns one group of full attention, and one more for each sliding window."""
    shape: dict[str, Any] = {"block_size": BLOCK, "num_kv_heads": 1, "head_size": 32, "dtype": torch.float32}
    full = KVCacheGroupSpec(["layer"], FullAttentionSpec(**shape))
    return [full] + [
        KVCacheGroupSpec([f"window{i}"], SlidingWindowSpec(sliding_window=size, **shape))
        for i, size in enumerate(windows)
    ]


@dataclass
class Step:
    """A step that is computed: what was scheduled, what was said, and what the workers reported."""

    scheduled: Any
    words: dict[str, list[int]]
    report: Any


class Engine:
    """One engine, stepped by the test."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        role: str = "kv_both",
        blocks: int = 101,
        windows: Sequence[int] = (),
        batch: int = 2048,
        caching: bool = True,
        asynchronous: bool = False,
        transfer: dict[str, Any] | None = None,
        clock: FakeClock | None = None,
        offline: bool = False,
        lockstep: bool = False,
        **extra: Any,
    ) -> None:
        """Starts an engine of *blocks* blocks, one of which vLLM never uses.

        *offline*: without the queue on which vLLM's engine core sleeps. *lockstep*: one of several ranks of a model
        of experts, which take each step together.
        """
        self.clock = clock or FakeClock()
        self.memory = Memory()
        self.workers = Workers(self.memory)
        self.begun: deque[Step] = deque()
        self._ahead = int(asynchronous)
        self._flying: defaultdict[str, list[int]] = defaultdict(list)  # said in steps that are not completed
        self.input_queue: Any = None if offline else Inputs()
        self.config = config(
            folder,
            transfer={"kv_role": role} | (transfer or {}),
            extra=extra,
            batch=batch,
            caching=caching,
            asynchronous=asynchronous,
        )
        self.config.cache_config.num_gpu_blocks = blocks
        self.config.parallel_config.data_parallel_size = 1 + lockstep
        with monkeypatch.context() as patch:
            patch.setattr(
                nixl,
                "LeasingScheduler",
                functools.partial(LeasingScheduler, clock=self.clock, link=cast("type[Link]", FakeLink)),
            )
            self.scheduler = (AsyncScheduler if asynchronous else Scheduler)(
                vllm_config=self.config,
                kv_cache_config=KVCacheConfig(
                    num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=kv_groups(windows)
                ),
                structured_output_manager=StructuredOutputManager(self.config),
                block_size=BLOCK,
                log_stats=True,
            )
        self.stats: list[dict[str, Any]] = []  # of the connector, as vLLM takes them to its /metrics
        self.connector: Any = self.scheduler.connector
        self.leasing: LeasingScheduler = self.connector.connector_scheduler
        self.link: Any = self.leasing._link
        self.pool = self.scheduler.kv_cache_manager.block_pool
        self.ref = self.link.engine.ref

    def stop(self) -> None:
        self.scheduler.shutdown()

    # -- requests ----------------------------------------------------------------------------------------------------

    def add(
        self, prompt: Sequence[int], transfer: dict[str, Any] | None = None, *, max_tokens: int = 4, **how: Any
    ) -> Request:
        """Adds a request with these transfer parameters."""
        sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        sampling.extra_args = {"kv_transfer_params": transfer}
        request = Request(
            request_id=how.pop("request_id", f"request-{next(NAMES)}"),
            prompt_token_ids=list(prompt),
            sampling_params=sampling,
            pooling_params=None,
            block_hasher=get_request_block_hasher(BLOCK, sha256),
            **how,
        )
        self.scheduler.add_request(request)
        return request

    def prefill(self, prompt: Sequence[int], **how: Any) -> Request:
        """Adds the prefill leg of a turn."""
        return self.add(prompt, params(terms(prefill=self.ref, decode=OTHER)), **({"max_tokens": 1} | how))

    def decode(self, prompt: Sequence[int], **how: Any) -> Request:
        """Adds the decode leg of a turn."""
        return self.add(prompt, params(terms(prefill=OTHER, decode=self.ref)), **how)

    def alone(self, prompt: Sequence[int], **how: Any) -> Request:
        """Adds a turn that decode serves alone."""
        return self.add(prompt, params(terms(prefill=None, decode=self.ref)), **how)

    def abort(self, request: Request) -> None:
        self.scheduler.finish_requests(request.request_id, RequestStatus.FINISHED_ABORTED)

    def preempt(self, request: Request) -> None:
        """Takes a running request's blocks away, as vLLM does when it has none left."""
        self.scheduler.running.remove(request)
        self.scheduler._preempt_request(request, 0.0)

    # -- steps -------------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether the engine core would go on rather than sleep."""
        return bool(self.begun) or self.scheduler.has_requests()

    def step(self) -> Any:
        """Does what the engine core does in one round: with asynchronous scheduling it is one step ahead."""
        if not self._ahead or self.scheduler.has_requests():
            self.begin()
        scheduled = self.begun[-1].scheduled
        if len(self.begun) > self._ahead or not self.scheduler.has_requests():
            self.complete()
        return scheduled

    def begin(self) -> Any:
        """Schedules and computes."""
        self.link.heartbeat()
        scheduled = self.scheduler.schedule()
        self.workers.take(scheduled.kv_connector_metadata)
        words = {request_id: self._compute(request_id, n) for request_id, n in scheduled.num_scheduled_tokens.items()}
        self.begun.append(Step(scheduled, words, self.workers.report()))
        return scheduled

    def complete(self) -> None:
        """Takes the result of the oldest step in."""
        step = self.begun.popleft()
        for request_id, said in step.words.items():
            del self._flying[request_id][: len(said)]
        outputs = self.scheduler.update_from_output(
            step.scheduled,
            ModelRunnerOutput(
                req_ids=list(step.words),
                req_id_to_index={request_id: i for i, request_id in enumerate(step.words)},
                sampled_token_ids=list(step.words.values()),
                kv_connector_output=step.report,
            ),
        )
        stats = [output.scheduler_stats.kv_connector_stats for output in outputs.values() if output.scheduler_stats]
        self.stats += [data for data in stats if data]

    def run(self, most: int = 200) -> int:
        """Steps until the engine would go to sleep; returns how often."""
        for steps in range(most):
            if not self.busy:
                return steps
            self.step()
        raise AssertionError(f"the engine has not come to rest in {most} steps")

    def _compute(self, request_id: str, count: int) -> list[int]:
        """Computes *count* tokens, and samples one where the last is among them. The KV before them must be right."""
        request = self.scheduler.requests[request_id]
        stop = request.num_computed_tokens  # counts this step already
        tokens = [*request.all_token_ids, *self._flying[request_id]]
        block_ids, traces = self._blocks(request), trace(tokens)
        assert self.memory.right(block_ids, traces, stop - count), f"{request_id} is computed on wrong KV"
        self.memory.write(block_ids, traces, stop - count, stop)
        said = [next(WORDS)] if stop >= len(tokens) else []
        self._flying[request_id] += said
        return said

    def _blocks(self, request: Request) -> list[int]:
        return list(self.scheduler.kv_cache_manager.get_block_ids(request.request_id)[0])

    @property
    def used(self) -> int:
        """Blocks that are not free."""
        return int(self.pool.num_gpu_blocks - 1 - self.pool.get_num_free_blocks())
