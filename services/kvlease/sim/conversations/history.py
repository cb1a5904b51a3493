"""A conversation as its client keeps it: what was said, and what is to be asked next."""

import random
from typing import Any

from kvlease.sim.answer import WORDS

Message = dict[str, Any]

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


class History:
    """Messages that only a whole answer makes longer."""

    def __init__(self, name: str, system: int) -> None:
        """Begins with a system prompt of *system* words, the same in every conversation."""
        self._dice = random.Random(name)  # noqa: S311 - not for secrets
        self.messages: list[Message] = []
        if system:
            self.messages.append({"role": "system", "content": words(random.Random(0), system)})  # noqa: S311

    def asking(self, count: int) -> list[Message]:
        """Returns the messages with one more: the user's, or the tool's that was called."""
        last = self.messages[-1] if self.messages else {}
        said = words(self._dice, count)
        if calls := last.get("tool_calls"):
            return [*self.messages, {"role": "tool", "tool_call_id": calls[0]["id"], "content": said}]
        return [*self.messages, {"role": "user", "content": said}]

    def answered(self, asked: list[Message], text: str, *, called: bool) -> None:
        """Takes a whole answer to *asked*; *called*: it calls a tool, with *text* as its arguments."""
        message: Message = {"role": "assistant", "content": None if called else text}
        if called:
            function = {"name": "look", "arguments": text}
            message["tool_calls"] = [{"id": "call", "type": "function", "function": function}]
        self.messages = [*asked, message]


def words(dice: random.Random, count: int) -> str:
    """Returns *count* words by chance."""
    return "".join(dice.choices(WORDS, k=count))
