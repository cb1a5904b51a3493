"""The prefix proof: keyed digests over tokens, and how far two of them agree.

Digest i covers everything before it, so equal digests mean equal prefixes, and the longest common prefix is found by
bisection. Whatever else decides KV (tenant, LoRA, cache salt) goes into the seed, multimodal items into the stride
in which they begin. The chain is what `kvlease.v1.PrefixChain` carries.
"""

import hashlib
import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvlease.v1.lease_pb2 import PrefixChain

SIZE = 8
STRIDE = 128
DEFINITION = b"kvlease prefix 1"


@dataclass(frozen=True, slots=True)
class Item:
    """A multimodal item: where it begins in the prompt, and what it is."""

    offset: int
    identity: str


@dataclass(slots=True)
class DigestKey:
    """The secret of a deployment, with which all of its engines digest."""

    secret: bytes = field(repr=False)
    key_id: str = field(init=False)
    _keyed: "hashlib.blake2b" = field(init=False, repr=False, compare=False)
    """A hash that has taken the key: a copy of it costs half of what a new one does."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a secret that BLAKE2b cannot take: empty, or over 64 bytes."""
        if not 1 <= len(self.secret) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ValueError(f"the digest key must have 1 to 64 bytes, not {len(self.secret)}")
        self._keyed = hashlib.blake2b(digest_size=SIZE, key=self.secret)
        self.key_id = self._digest(DEFINITION).hex()

    def seed(self, facts: Mapping[str, str]) -> bytes:
        """Returns the digest of no tokens, which stands for all that decides KV beside them."""
        return self._digest(json.dumps(facts, sort_keys=True).encode())

    def extend(self, previous: bytes, tokens: bytes, items: Sequence[Item] = ()) -> bytes:
        """Returns the digest after one more (perhaps unfinished) stride of *tokens*, 4 bytes each."""
        if not items:
            return self._digest(previous + tokens)
        extra = b"".join(f"\0{item.offset}:{item.identity}".encode() for item in items)
        return self._digest(previous + tokens + extra)

    def _digest(self, data: bytes) -> bytes:
        digest = self._keyed.copy()
        digest.update(data)
        return digest.digest()


class Chain:
    """The digests of one prompt or history."""

    def __init__(self, key: DigestKey, seed: bytes, tokens: Sequence[int], items: Sequence[Item] = ()) -> None:
        """Digests the whole strides of *tokens*; about 1 µs per stride."""
        self.key = key
        self.length = len(tokens)
        self._tokens = _pack(tokens)
        self._items = sorted(items, key=lambda item: item.offset)
        self._whole = [seed]  # [i] covers i strides
        width = 4 * STRIDE
        for start in range(0, self.length // STRIDE * width, width):
            chunk = self._tokens[start : start + width]
            self._whole.append(key.extend(self._whole[-1], chunk, self._within(start // 4, start // 4 + STRIDE)))

    def prefix(self, length: int) -> PrefixChain:
        """Returns the chain of the first *length* tokens, as a handle carries it."""
        strides, rest = divmod(length, STRIDE)
        digests = self._whole[1 : strides + 1]
        if rest:
            digests.append(self._digest_at(length))
        return PrefixChain(key_id=self.key.key_id, stride=STRIDE, digests=b"".join(digests))

    def boundaries(self, most: int) -> tuple[list[int], bytes]:
        """Returns at most *most* boundaries in strides, ascending and densest at the end, and their digests."""
        count = len(self._whole) - 1
        chosen = list(range(1, count + 1))
        if count > most:
            dense = most // 2
            coarse = [(count - dense) * (i + 1) // (most - dense) for i in range(most - dense)]
            chosen = coarse + chosen[-dense:]
        return chosen, b"".join(self._whole[i] for i in chosen)

    def proved(self, chain: PrefixChain, token_count: int) -> int:
        """Returns how many tokens this prompt and a handle's *chain* of *token_count* tokens surely share."""
        strides, rest = divmod(token_count, STRIDE)
        if (
            chain.key_id != self.key.key_id
            or chain.stride != STRIDE
            or len(chain.digests) != SIZE * (strides + bool(rest))
        ):
            return 0
        low, high = 0, min(strides, len(self._whole) - 1)
        while low < high:
            middle = (low + high + 1) // 2
            if chain.digests[SIZE * (middle - 1) : SIZE * middle] == self._whole[middle]:
                low = middle
            else:
                high = middle - 1
        if rest and low == strides and token_count <= self.length:
            return token_count if chain.digests[-SIZE:] == self._digest_at(token_count) else low * STRIDE
        return low * STRIDE

    def _digest_at(self, length: int) -> bytes:
        strides = length // STRIDE
        tail = self._tokens[4 * STRIDE * strides : 4 * length]
        return self.key.extend(self._whole[strides], tail, self._within(strides * STRIDE, length))

    def _within(self, start: int, stop: int) -> list[Item]:
        return [item for item in self._items if start <= item.offset < stop] if self._items else []


def _pack(tokens: Sequence[int]) -> bytes:
    """Returns *tokens* as little-endian 32-bit integers. Unsigned ones, as all ids of tokens are, pack much faster."""
    try:
        packed = array("I", tokens)
    except OverflowError:
        packed = array("i", tokens)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
