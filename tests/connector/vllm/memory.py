"""What KV blocks hold: for each slot, which tokens its KV was computed from."""

from collections.abc import Iterable, Sequence

BLOCK = 16


def trace(tokens: Iterable[int]) -> list[int]:
    """Returns for each token what its KV depends on: itself and all before it."""
    traces, before = [], 0
    for token in tokens:
        before = hash((before, token))
        traces.append(before)
    return traces


class Memory:
    """The blocks of one engine."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[int | None]] = {}

    def write(self, block_ids: Sequence[int], traces: Sequence[int], start: int, stop: int) -> None:
        """Computes the KV of tokens *start* to *stop*."""
        for at in range(start, stop):
            self._block(block_ids[at // BLOCK])[at % BLOCK] = traces[at]

    def right(self, block_ids: Sequence[int], traces: Sequence[int], stop: int) -> bool:
        """Whether the first *stop* tokens' KV is that of these very tokens."""
        return all(self._block(block_ids[at // BLOCK])[at % BLOCK] == traces[at] for at in range(stop))

    def copy(self, source: "Memory", theirs: Sequence[int], ours: Sequence[int]) -> None:
        """Reads whole blocks of another engine, aligned by their ends as NIXL's workers do."""
        for their_id, our_id in zip(theirs[-len(ours) :], ours, strict=True):
            self._blocks[our_id] = list(source._block(their_id))

    def _block(self, block_id: int) -> list[int | None]:
        return self._blocks.setdefault(block_id, [None] * BLOCK)
