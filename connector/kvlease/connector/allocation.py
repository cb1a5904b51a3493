"""In which order vLLM's pool hands blocks out."""

from operator import attrgetter
from typing import Any

_ID = attrgetter("block_id")


def hand_out_in_order(pool: Any) -> None:
    """Makes vLLM's `BlockPool` hand out the blocks of one allocation by their ids; which ones is up to vLLM as before.

    NIXL moves neighbours in one piece. vLLM hands blocks out in the order in which they were freed, and frees a request
    from its end, so that after some requests blocks run backwards, and a read is one piece for each block and layer.
    """
    hand_out = pool.get_new_blocks

    def get_new_blocks(num_blocks: int) -> list[Any]:
        blocks: list[Any] = hand_out(num_blocks)
        if num_blocks > 1:
            blocks.sort(key=_ID)
        return blocks

    pool.get_new_blocks = get_new_blocks
