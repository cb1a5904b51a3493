"""Text becomes tokens in such a way that a turn's prompt begins with the turn before."""

import pytest

from kvlease.sim import answer, tokens
from kvlease.sim.tokens import BadPromptError


def message(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


def test_the_next_turn_begins_with_this_one_and_its_answer() -> None:
    asked = [message("system", "Be brief."), message("user", "What is the time? ✓")]
    said = answer.text(tokens.of_chat(asked), 7)

    following = tokens.of_chat([*asked, message("assistant", said), message("user", "And now?")])

    history = tokens.of_chat(asked) + tokens.encode(said)
    assert following[: len(history)] == history


def test_the_next_turn_begins_with_a_tool_call_too() -> None:
    asked = [message("user", "Look it up.")]
    said = answer.text(tokens.of_chat(asked), 3)
    called = message("assistant", None) | {"tool_calls": [{"function": {"name": "look", "arguments": said}}]}

    following = tokens.of_chat([*asked, called, message("tool", "42")])

    history = tokens.of_chat(asked)
    history.append(tokens.CALL)
    history.extend(tokens.encode(said))
    assert following[: len(history)] == history


def test_content_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]

    assert tokens.of_chat([message("user", parts)]) == tokens.of_chat([message("user", "one two")])


NO_MESSAGES = (
    ("nobody", "hi"),
    ("user", 7),
    ("user", [7]),
    ("user", [None]),
    ("user", [{"type": "text", "text": None}]),
)
NO_CALLS: tuple[object, ...] = ("x", [5], [{}], [{"function": 5}], [{"function": {"arguments": {}}}])


def calling(calls: object) -> list[dict[str, object]]:
    return [{"role": "assistant", "content": None, "tool_calls": calls}]


@pytest.mark.parametrize(
    "messages", [None, [], "hi", [1], [{}], *(([message(*said)]) for said in NO_MESSAGES), *map(calling, NO_CALLS)]
)
def test_what_is_no_chat_is_refused(messages: object) -> None:
    with pytest.raises(BadPromptError):
        tokens.of_chat(messages)


@pytest.mark.parametrize("prompt", [None, "", [], ["text"], [1 << 40]])
def test_what_is_no_prompt_is_refused(prompt: object) -> None:
    with pytest.raises(BadPromptError):
        tokens.of_prompt(prompt)


def test_a_prompt_may_be_text_or_tokens() -> None:
    assert tokens.of_prompt("abcdefgh") == tokens.encode("abcdefgh")
    assert list(tokens.of_prompt([5, 6, 7])) == [5, 6, 7]


def test_answers_to_different_prompts_differ() -> None:
    answers = {answer.text(tokens.encode(f"question {n}"), 8) for n in range(500)}

    assert len(answers) == 500


def test_an_answer_from_other_kv_is_another() -> None:
    prompt = tokens.encode("question")

    assert answer.seed(prompt) != answer.seed(prompt, tainted=b"something else")
