"""What is said in a conversation: random tokens, the same for every leg of a round."""

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation whose last prompt has a given length; every turn before it adds an answer and a message.

    All lengths in tokens.
    """

    length: int  # of the last prompt
    turns: int
    message: int
    answer: int
    tokens: tuple[int, int]  # ids are drawn from the first to the second
    seed: str

    def __post_init__(self) -> None:
        """Refuses what leaves nothing to be said first."""
        if self.turns < 1 or self.opening < 1:
            raise ValueError(f"a prompt of {self.length} tokens has no room for {self.turns} turns: make it longer")

    @property
    def opening(self) -> int:
        """Length of the first prompt."""
        return self.length - (self.turns - 1) * (self.message + self.answer)

    def said(self, turn: int) -> list[int]:
        """What the user says in a turn, counted from 1."""
        draw = random.Random(f"{self.seed} {self.length} {turn}")  # noqa: S311 - no secret
        first, last = self.tokens
        return [draw.randrange(first, last) for _ in range(self.opening if turn == 1 else self.message)]

    def prompt(self, turn: int, history: Sequence[int], answer: Sequence[int]) -> list[int]:
        """A turn's prompt, by the prompt and the answer of the turn before."""
        return [*history, *answer, *self.said(turn)]
