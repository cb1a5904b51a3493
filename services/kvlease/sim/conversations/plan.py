"""What the driver does: how many conversations, how long, how fast, and how often its clients leave."""

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that decides a run. Times in seconds, sizes in words of four bytes: one word, one token.

    Attributes:
        concurrent: Conversations at a time.
        turns: Of a conversation, at most.
        think: Mean time between an answer and the next turn, spread exponentially.
        ramp: The first conversations begin spread over this.
        duration: No turn begins later than this; None: until all conversations are over.
        system: Words of the system prompt that all conversations share.
        words: Least and most words of a user's message.
        answer: Least and most words of an answer.
        aborts: Share of the turns that the client leaves before they are answered.
        tools: Share of the turns that are to be answered by a tool call.
        patience: A turn that is not answered within this hangs.
        end: Whether a conversation is ended explicitly.
    """

    conversations: int = 10
    concurrent: int = 10
    turns: int = 8
    think: float = 2.0
    ramp: float = 1.0
    duration: float | None = None
    system: int = 64
    words: tuple[int, int] = (20, 120)
    answer: tuple[int, int] = (8, 32)
    aborts: float = 0.0
    tools: float = 0.0
    patience: float = 30.0
    end: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """What one turn is to be. *abort_after*: seconds after which the client leaves."""

    words: int
    answer: int
    tools: bool
    abort_after: float | None
    think: float


def turns_of(plan: Plan, conversation: int) -> Iterator[TurnPlan]:
    """Plans a conversation; the same for the same plan and number."""
    dice = random.Random(f"{plan.seed} {conversation}")  # noqa: S311 - not for secrets
    for _ in range(dice.randint(max(1, plan.turns // 2), plan.turns)):
        yield TurnPlan(
            words=dice.randint(*plan.words),
            answer=dice.randint(*plan.answer),
            tools=dice.random() < plan.tools,
            abort_after=dice.expovariate(10.0) if dice.random() < plan.aborts else None,
            think=dice.expovariate(1 / plan.think) if plan.think else 0.0,
        )
