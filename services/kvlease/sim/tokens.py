"""Text and tokens. A token is four bytes of UTF-8; a message is a token for its role, its text, and END.

Text that was generated becomes the same tokens again, so that a turn's prompt begins with the turn before, token by
token, as with a chat template that loses nothing.
"""

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

WIDTH = 4
END = -1  # no text encodes to a negative number of four 0xff bytes, or near it
CALL = -2
_ROLES = {"system": -16, "developer": -16, "user": -17, "assistant": -18, "tool": -19}


class BadPromptError(ValueError):
    """The prompt is none; the message says why."""


def encode(text: str) -> "array[int]":
    """Returns the tokens of *text*, filled up with blanks to a whole one."""
    data = text.encode()
    return array("i", data + b" " * (-len(data) % WIDTH))


def of_chat(messages: Any) -> "array[int]":
    """Returns the prompt of a chat, up to the assistant's next message.

    Raises:
        BadPromptError: These are no messages.
    """
    if not isinstance(messages, list) or not messages:
        raise BadPromptError("`messages` must be a list of at least one message")
    tokens = array("i")
    for message in messages:
        tokens.extend(_of_message(message))
    tokens.append(_ROLES["assistant"])
    return tokens


def of_prompt(prompt: Any) -> "array[int]":
    """Returns the prompt of a completion: a text, or token ids.

    Raises:
        BadPromptError: It is neither, or empty.
    """
    if isinstance(prompt, str) and prompt:
        return encode(prompt)
    if isinstance(prompt, list) and prompt:
        try:
            return array("i", prompt)
        except (TypeError, OverflowError) as error:
            raise BadPromptError("`prompt` must be one text or one list of token ids") from error
    raise BadPromptError("`prompt` must be a text or a list of token ids, not empty")


def _of_message(message: Any) -> "array[int]":
    role = _ROLES.get(str(message.get("role"))) if isinstance(message, Mapping) else None
    if role is None:
        raise BadPromptError(f"a message needs a role, one of {', '.join(_ROLES)}")
    tokens = array("i", [role])
    tokens.extend(encode(_text(message.get("content"))))
    for arguments in _calls(message.get("tool_calls") or []):
        tokens.append(CALL)
        tokens.extend(encode(arguments))
    tokens.append(END)
    return tokens


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(map(_of_part, _list(content, "content")))


def _of_part(part: Any) -> str:
    text = part.get("text", "") if isinstance(part, Mapping) else None
    if not isinstance(text, str):
        raise BadPromptError("`content` must be a text or a list of parts with texts")
    return text


def _calls(calls: Any) -> Iterator[str]:
    for call in _list(calls, "tool_calls"):
        function = call.get("function") if isinstance(call, Mapping) else None
        arguments = function.get("arguments") if isinstance(function, Mapping) else None
        if not isinstance(arguments, str):
            raise BadPromptError("each of `tool_calls` needs a `function` with `arguments` that are a text")
        yield arguments


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadPromptError(f"`{name}` must be a list")
    return value
