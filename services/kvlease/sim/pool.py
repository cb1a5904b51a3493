"""The pretended block pool: counted as vLLM's `BlockPool` counts, with tags where vLLM has KV."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from kvlease.sim.sequence import Sequence


@dataclass(slots=True, eq=False)
class Block:
    """Room for the KV of some tokens.

    Attributes:
        tag: Digest of the tokens whose KV is in here and of all before them; None: nothing that is known.
        epoch: Counts the writers: it rises whenever the block is handed out anew.
        key: Under which it is found in the prefix cache.
    """

    block_id: int
    is_null: bool = False
    ref_cnt: int = 0
    tag: bytes | None = None
    epoch: int = 0
    key: Hashable = None


class BlockPool:
    """All blocks of an engine. Block 0 stands for no block, as in vLLM."""

    def __init__(self, num_gpu_blocks: int) -> None:
        """Takes the number of blocks, the null block among them."""
        self.num_gpu_blocks = num_gpu_blocks
        self.blocks = [Block(block_id) for block_id in range(num_gpu_blocks)]
        self.blocks[0].is_null = True
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_gpu_blocks))  # next to be used first
        self._cached: dict[Hashable, Block] = {}

    def get_num_free_blocks(self) -> int:
        """Blocks that can be handed out; some may be found in the prefix cache until then."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the blocks that is in use."""
        return 1 - len(self._free) / (self.num_gpu_blocks - 1)

    def take(self, count: int) -> list[Block] | None:
        """Hands out *count* blocks with nothing in them; None: there are not so many."""
        if count > len(self._free):
            return None
        taken = [self.blocks[self._free.popitem(last=False)[0]] for _ in range(count)]
        for block in taken:
            self._forget(block)
            block.ref_cnt, block.tag = 1, None
            block.epoch += 1
        return taken

    def touch(self, blocks: Iterable[Block]) -> None:
        """Takes one more reference of each of *blocks*."""
        for block in blocks:
            if block.ref_cnt == 0:
                self._free.pop(block.block_id, None)
            block.ref_cnt += 1

    def free_blocks(self, ordered_blocks: Iterable[Block]) -> None:
        """Gives a reference of each of the blocks back; those that nobody has any more are used in this order."""
        for block in ordered_blocks:
            if block.ref_cnt == 0:
                raise RuntimeError(f"block {block.block_id} was freed twice")
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                self._free[block.block_id] = None

    def cached(self, key: Hashable) -> Block | None:
        """Returns the block that the prefix cache has under *key*."""
        return self._cached.get(key)

    def cache(self, block: Block, key: Hashable) -> None:
        """Makes *block* found under *key*, unless another one is."""
        if block.key is None and key not in self._cached:
            block.key = key
            self._cached[key] = block

    def reset_cache(self) -> None:
        """Forgets the prefix cache; what is in use stays in use."""
        for block in list(self._cached.values()):
            self._forget(block)

    def _forget(self, block: Block) -> None:
        if block.key is not None:
            del self._cached[block.key]
            block.key = None


def right(blocks: list[Block], sequence: Sequence, count: int, block_size: int) -> bool:
    """Whether *blocks* hold the KV of the first *count* tokens of *sequence*, and nothing else."""
    full, rest = divmod(count, block_size)
    expected = sequence.whole(full)
    if any(block.tag != tag for block, tag in zip(blocks[:full], expected, strict=False)):
        return False
    return not rest or blocks[full].tag == sequence.digest(count)
