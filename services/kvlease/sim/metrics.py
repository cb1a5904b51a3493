"""What an engine tells Prometheus: vLLM's names where vLLM counts the same, and `kvlease_sim_` for the rest."""

from kvlease.sim.engine import Engine
from kvlease.sim.request import Finish

BYTES_PER_TOKEN = 131_072  # of a model with 8 KV heads of 128, 32 layers, 16 bits


def exposition(engine: Engine, *, engine_name: str, model: str) -> bytes:
    """Returns all of it in Prometheus' text format."""
    labels = f'{{engine="{engine_name}",model_name="{model}"}}'
    lines: list[str] = []
    for name, kind, value in _samples(engine):
        family = name.removesuffix("_sum").removesuffix("_count")
        if not name.endswith("_count") or kind != "histogram":
            lines.append(f"# TYPE {family} {kind}")
        lines.append(f"{name}{labels} {value}")
    return "\n".join([*lines, ""]).encode()


def _samples(engine: Engine) -> list[tuple[str, str, float]]:
    scheduler, retention, reads = engine.scheduler, engine.connector.retention, engine.connector.transfers.counters
    return [
        ("vllm:num_requests_running", "gauge", len(scheduler.running)),
        ("vllm:num_requests_waiting", "gauge", len(scheduler.waiting) + len(scheduler.remote)),
        ("vllm:kv_cache_usage_perc", "gauge", engine.pool.usage),
        ("vllm:num_preemptions_total", "counter", scheduler.preemptions),
        ("vllm:prompt_tokens_total", "counter", engine.prompt_tokens),
        ("vllm:generation_tokens_total", "counter", engine.generated_tokens),
        ("vllm:request_success_total", "counter", sum(engine.finished.values()) - engine.finished[Finish.ABORT]),
        ("vllm:nixl_xfer_time_seconds_sum", "histogram", reads.seconds),
        ("vllm:nixl_xfer_time_seconds_count", "histogram", reads.reads),
        ("vllm:nixl_bytes_transferred_sum", "histogram", reads.tokens * BYTES_PER_TOKEN),
        ("vllm:nixl_bytes_transferred_count", "histogram", reads.reads),
        ("vllm:nixl_num_failed_transfers_total", "counter", reads.failed),
        ("kvlease_sim_aborted_total", "counter", engine.finished[Finish.ABORT]),
        ("kvlease_sim_wrong_answers_total", "counter", engine.wrong_answers),
        ("kvlease_sim_leases", "gauge", engine.connector.owner.leases),
        ("kvlease_sim_leased_blocks", "gauge", retention.blocks),
        ("kvlease_sim_used_blocks", "gauge", engine.pool.num_gpu_blocks - 1 - engine.pool.get_num_free_blocks()),
    ]
