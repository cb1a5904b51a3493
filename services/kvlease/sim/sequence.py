"""A request's tokens and the digests of their blocks: what its KV blocks should hold."""

import hashlib
from array import array

SIZE = 8  # bytes of a digest


class Sequence:
    """Tokens that only ever grow. The digest of some of them covers all before them too."""

    __slots__ = ("_block_size", "_whole", "tokens")

    def __init__(self, tokens: "array[int]", block_size: int) -> None:
        """Digests nothing yet."""
        self.tokens = tokens
        self._block_size = block_size
        self._whole: list[bytes] = []  # [i] covers i + 1 blocks

    def digest(self, count: int) -> bytes:
        """Returns the digest of the first *count* tokens, at least one."""
        blocks, rest = divmod(count, self._block_size)
        if rest:
            return self._extend(self.whole(blocks)[blocks - 1] if blocks else b"", blocks, count)
        return self.whole(blocks)[blocks - 1]

    def whole(self, blocks: int) -> list[bytes]:
        """Returns the digests of at least the first *blocks* blocks, all of them full."""
        whole = self._whole
        while len(whole) < blocks:
            index = len(whole)
            whole.append(self._extend(whole[-1] if whole else b"", index, (index + 1) * self._block_size))
        return whole

    def _extend(self, before: bytes, block: int, end: int) -> bytes:
        chunk = self.tokens[block * self._block_size : end]
        return hashlib.blake2b(before + chunk.tobytes(), digest_size=SIZE).digest()
