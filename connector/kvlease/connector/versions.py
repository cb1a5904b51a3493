"""What differs between the vLLM versions that are supported, and the refusal of all others."""

from collections.abc import Collection
from typing import Any

import vllm
from vllm.distributed.kv_transfer.kv_connector.v1 import base

VLLM_VERSION: str = vllm.__version__
SUPPORTED = ((0, 26), (0, 33))  # first and last minor version, both included


class UnsupportedVllmError(RuntimeError):
    """This vLLM is one that the connector was not made for."""


# 0.32 and later report failed reads by request id, older ones by invalid block ids.
REPORTS_FAILED_REQUESTS = hasattr(base, "KVConnectorTransferResults")


def check() -> None:
    """Raises `UnsupportedVllmError` unless vLLM's version is one of those that are tested."""
    first, last = SUPPORTED
    try:
        major, minor = (int(part) for part in VLLM_VERSION.split(".")[:2])
    except ValueError:
        major, minor = -1, -1
    if not first <= (major, minor) <= last:
        raise UnsupportedVllmError(
            f"kvlease supports vLLM {first[0]}.{first[1]} to {last[0]}.{last[1]}, not {VLLM_VERSION}: "
            "install one of these, or a newer kvlease"
        )


def check_groups(groups: int) -> None:
    """Raises `UnsupportedVllmError` where failed reads of models with several KV-cache groups cannot be reported."""
    if groups > 1 and not REPORTS_FAILED_REQUESTS:
        raise UnsupportedVllmError(
            f"models with {groups} KV-cache groups need vLLM 0.32 or later (this is {VLLM_VERSION}): "
            "a failed read could not be recomputed"
        )


def any_failed(output: Any) -> bool:
    """Whether the workers reported any read as failed."""
    return bool(output.invalid_block_ids) or (REPORTS_FAILED_REQUESTS and bool(output.failed_recving))


def read_failed(output: Any, request_id: str, block_ids: Collection[int]) -> bool:
    """Whether the workers reported the read of *request_id* into *block_ids* as failed."""
    if REPORTS_FAILED_REQUESTS and request_id in output.failed_recving:
        return True
    return bool(output.invalid_block_ids) and not output.invalid_block_ids.isdisjoint(block_ids)
