"""KV blocks kept by reference in vLLM's pool: counted up when kept, down when let go. Only in the scheduling loop."""

from collections import Counter
from collections.abc import Sequence
from typing import Any


class Retention:
    """The blocks that leases keep. A block that several leases share is counted once."""

    def __init__(self, pool: Any) -> None:
        """Takes vLLM's `BlockPool`."""
        self._pool = pool
        self._kept: dict[str, list[Any]] = {}
        self._references: Counter[int] = Counter()

    def keep(self, name: str, groups: Sequence[Sequence[int]]) -> int:
        """Keeps the blocks with these ids, one list per KV-cache group, under *name*; returns how many."""
        table = self._pool.blocks
        blocks = [block for ids in groups for block_id in ids if not (block := table[block_id]).is_null]
        self._pool.touch(blocks)
        self._kept[name] = blocks
        self._references.update(block.block_id for block in blocks)
        return len(blocks)

    def let_go(self, name: str) -> None:
        """Lets the blocks kept under *name* go, from the end as vLLM does: prefix caches lose the end first."""
        blocks = self._kept.pop(name)
        self._pool.free_blocks(reversed(blocks))
        self._references.subtract(block.block_id for block in blocks)
        for block in blocks:
            if not self._references[block.block_id]:
                del self._references[block.block_id]

    @property
    def blocks(self) -> int:
        """Blocks kept."""
        return len(self._references)

    @property
    def total(self) -> int:
        """Blocks in the pool."""
        return int(self._pool.num_gpu_blocks)

    @property
    def free(self) -> int:
        """Blocks that vLLM can allocate now."""
        return int(self._pool.get_num_free_blocks())
