"""Data-parallel ranks: each is an engine of its own, and all may share one HTTP address and one environment."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rank:
    """Where a rank is behind its HTTP address.

    Attributes:
        index: What `X-data-parallel-rank` must say for requests to come to it.
        count: Ranks behind the address, 1 where it has none beside it. Of a dense model it is the least that there
            must be, because vLLM's ranks forget how many they are: what matters is whether there are several.
        suffix: Makes a name that all ranks are given into this one's.
    """

    index: int
    count: int
    suffix: str


def rank_of(config: Any) -> Rank:
    """Returns which rank an engine is.

    vLLM makes a rank of a dense model into an engine that believes it is alone. That it is not shows in the engine id
    alone, to which vLLM has appended the rank.
    """
    parallel = config.parallel_config
    suffix = f"_dp{parallel.data_parallel_index}"
    if not config.kv_transfer_config.engine_id.endswith(suffix):
        return Rank(0, 1, "")
    if parallel.data_parallel_external_lb:  # each rank has an HTTP server of its own, which takes no other number
        return Rank(0, 1, suffix)
    if parallel.data_parallel_hybrid_lb:  # each host has one, which counts its own ranks
        index, count = parallel.data_parallel_rank_local, parallel.data_parallel_size_local
    else:
        index, count = parallel.data_parallel_index, parallel.data_parallel_size
    return Rank(index, max(2, index + 1, count), suffix)
