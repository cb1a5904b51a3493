"""What is said in a conversation."""

import pytest

from benchmarks.multiturn.conversations import Conversation


def conversation(length: int = 100, turns: int = 3) -> Conversation:
    return Conversation(length, turns, 10, 4, (50, 60), "seed")


def test_the_last_prompt_has_the_length_that_was_asked_for() -> None:
    said, prompt, answer = conversation(), [], []  # type: ignore[var-annotated]
    for turn in (1, 2, 3):
        prompt, answer = said.prompt(turn, prompt, answer), [1, 2, 3, 4]

    assert len(prompt) == 100


def test_a_prompt_begins_with_the_history() -> None:
    said = conversation()
    first = said.prompt(1, (), ())

    assert said.prompt(2, first, [1, 2, 3, 4])[: len(first) + 4] == [*first, 1, 2, 3, 4]


def test_every_leg_says_the_same() -> None:
    assert conversation().prompt(1, (), ()) == conversation().prompt(1, (), ())


def test_tokens_are_of_the_range() -> None:
    assert set(conversation().said(1)) <= set(range(50, 60))


def test_a_length_without_room_for_its_turns_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        conversation(length=28)
