"""Chains of keyed digests: which of two token sequences begins like the other, without seeing tokens."""

from typing import NamedTuple

DIGEST = 8
"""Bytes of one digest."""


class Chain(NamedTuple):
    """The digests of a handle's tokens.

    Digest i stands for the first i+1 strides together, so that two chains agree up to a boundary exactly when their
    digests there are equal. A last digest stands for all tokens when they end inside a stride.
    """

    key_id: str
    stride: int
    tokens: int
    digests: bytes

    def at(self, strides: int) -> bytes:
        """The digest of so many whole strides, at least one."""
        return self.digests[(strides - 1) * DIGEST : strides * DIGEST]

    def begins(self, longer: "Chain", *, named: bool) -> bool:
        """Tells whether these tokens are, as far as can be known here, the first tokens of `longer`.

        Whole strides are compared. Tokens after the last of them can only be compared when both chains end at the same
        token. Otherwise somebody who saw the tokens must have said so: `named` tells that the owner of `longer` named
        this lease as the one that its prompt grew from. If that was not true to the last token, fewer tokens than a
        stride are lost for reuse, and nothing is ever read wrongly, since readers prove every token.
        """
        if (self.key_id, self.stride) != (longer.key_id, longer.stride) or self.tokens > longer.tokens:
            return False
        whole, rest = divmod(self.tokens, self.stride)
        if whole and self.at(whole) != longer.at(whole):
            return False
        if rest and self.tokens == longer.tokens:
            return self.digests == longer.digests
        return not rest or named

    def matched(self, prompt: "Prompt") -> int:
        """Tokens up to the last of the prompt's boundaries at which both agree; 0 when they agree at none."""
        if (self.key_id, self.stride) != (prompt.key_id, prompt.stride):
            return 0
        whole = self.tokens // self.stride
        for i in range(len(prompt.strides) - 1, -1, -1):
            strides = prompt.strides[i]
            if strides <= whole and self.at(strides) == prompt.digests[i * DIGEST : (i + 1) * DIGEST]:
                return strides * self.stride
        return 0


class Prompt(NamedTuple):
    """The digests of a reader's prompt at some boundaries: how many strides each covers, ascending."""

    key_id: str
    stride: int
    strides: tuple[int, ...]
    digests: bytes
