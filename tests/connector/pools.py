"""A block pool as vLLM's is: counted references, and a queue of free blocks that forgets nothing."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Block:
    block_id: int
    ref_cnt: int = 0
    is_null: bool = False


class Pool:
    """So many blocks; the first is the null block, which is never free and never counted."""

    def __init__(self, blocks: int) -> None:
        self.num_gpu_blocks = blocks
        self.blocks = [Block(i) for i in range(blocks)]
        self.blocks[0].is_null = True
        self.freed: list[int] = []

    def allocate(self, *ids: int) -> None:
        for block_id in ids:
            self.blocks[block_id].ref_cnt += 1

    def touch(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            assert not block.is_null
            block.ref_cnt += 1

    def free_blocks(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            assert block.ref_cnt > 0
            block.ref_cnt -= 1
            if not block.ref_cnt:
                self.freed.append(block.block_id)

    def get_num_free_blocks(self) -> int:
        return sum(not block.ref_cnt and not block.is_null for block in self.blocks)
