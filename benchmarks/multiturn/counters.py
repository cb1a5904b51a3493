"""What an engine counts of its own work, and how much of it some requests made."""

import asyncio
import re
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from kvlease.local import page

REQUESTS = "vllm:e2e_request_latency_seconds_count"
READS = "vllm:nixl_xfer_time_seconds_count"
USAGE = "vllm:kv_cache_usage_perc"
SECONDS = {
    "total": "vllm:e2e_request_latency_seconds_sum",
    "queued": "vllm:request_queue_time_seconds_sum",  # reading KV counts as waiting
    "computing": "vllm:request_prefill_time_seconds_sum",
    "reading": "vllm:nixl_xfer_time_seconds_sum",
}
BYTES = "vllm:nixl_bytes_transferred_sum"
READ_TOKENS = "vllm:external_prefix_cache_hits_total"
FAILED_READS = "vllm:nixl_num_failed_transfers_total"
EXPIRED = "vllm:nixl_num_kv_expired_reqs_total"
PREEMPTIONS = "vllm:num_preemptions_total"

COLLECTED = (REQUESTS, READS, *SECONDS.values(), BYTES, READ_TOKENS, FAILED_READS, EXPIRED, PREEMPTIONS, USAGE)

Counters = Mapping[str, float]

_COUNTED_WITHIN = 2.0  # seconds until an engine's counters tell of what it did
_POLL = 0.02  # seconds
_POOL = re.compile(r'^vllm:cache_config_info\{.*?\bblock_size="(\d+)".*?\bnum_gpu_blocks="(\d+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Work:
    """What one engine did between two looks. Times in seconds, of all requests together."""

    requests: int
    total: float
    queued: float
    computing: float
    reading: float
    reads: int
    read_bytes: int
    read_tokens: int


@dataclass(frozen=True, slots=True)
class Pool:
    """An engine's KV blocks."""

    blocks: int
    block_size: int  # tokens

    @property
    def tokens(self) -> int:
        return self.blocks * self.block_size

    def holds(self, tokens: int) -> int:
        """How many requests of so many tokens fit, each in blocks of its own."""
        return self.blocks // -(-tokens // self.block_size)


NOTHING = Work(requests=0, total=0, queued=0, computing=0, reading=0, reads=0, read_bytes=0, read_tokens=0)


async def look(url: str) -> Counters:
    """An engine's counters now. Raises OSError if it does not answer."""
    told = await asyncio.to_thread(page.counters, url)
    return {name: told.get(name, 0.0) for name in COLLECTED}


async def work_since(url: str, before: Counters, *, requests: int, reads: int) -> Work:
    """What an engine did, once it has counted so many requests and reads, or has had the time to."""
    deadline = time.monotonic() + _COUNTED_WITHIN
    while True:
        done = work(before, await look(url))
        if (done.requests >= requests and done.reads >= reads) or time.monotonic() > deadline:
            return done
        await asyncio.sleep(_POLL)


def work(before: Counters, after: Counters) -> Work:
    def grown(name: str) -> float:
        return after[name] - before[name]

    return Work(
        requests=round(grown(REQUESTS)),
        **{name: grown(series) for name, series in SECONDS.items()},
        reads=round(grown(READS)),
        read_bytes=round(grown(BYTES)),
        read_tokens=round(grown(READ_TOKENS)),
    )


def pool(url: str) -> Pool:
    """An engine's KV pool. Raises OSError if it does not answer or does not say."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:  # noqa: S310 - an address of our own making
        return pool_in(str(answer.read(), "utf-8"))


def pool_in(metrics: str) -> Pool:
    found = _POOL.search(metrics)
    if found is None:
        raise OSError("the engine does not tell the size of its pool")
    return Pool(blocks=int(found[2]), block_size=int(found[1]))
