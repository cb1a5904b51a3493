"""The answer to a prompt: made of its tokens alone, so that whoever knows the prompt knows the answer."""

import hashlib
from array import array
from collections.abc import Iterator

from kvlease.sim.tokens import WIDTH, encode

_CONSONANTS, _VOWELS = "bcdfghjklmnprstv", "aeiou"
_STEP, _MIX, _MASK = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 2**64 - 1  # of splitmix64


def _words() -> Iterator[str]:
    for first in _CONSONANTS:
        for vowel in _VOWELS:
            for last in _CONSONANTS:
                yield f"{first}{vowel}{last} "


WORDS = tuple(_words())
"""All that can be said; each is one token."""
WORD_BYTES = tuple(word.encode() for word in WORDS)
WORD_TOKENS = tuple(encode("".join(WORDS)))
assert all(len(word) == WIDTH for word in WORDS)  # noqa: S101 - what the three tables stand on


def seed(prompt: "array[int]", *, tainted: bytes = b"") -> int:
    """Returns what an answer is made from. *tainted*: what was in the KV instead of the prompt's."""
    return int.from_bytes(hashlib.blake2b(prompt.tobytes() + tainted, digest_size=8).digest(), "little")


def word(from_seed: int, index: int) -> int:
    """Returns the index in the tables of an answer's word number *index*."""
    mixed = from_seed + _STEP * index & _MASK
    mixed = (mixed ^ mixed >> 30) * _MIX & _MASK
    return (mixed ^ mixed >> 27) % len(WORDS)


def text(prompt: "array[int]", count: int) -> str:
    """Returns the right answer to *prompt*, as far as its first *count* words."""
    begun = seed(prompt)
    return "".join(WORDS[word(begun, index)] for index in range(count))
