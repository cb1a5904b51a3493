"""What a fake engine says: texts, calls of tools, and answers that break off."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_CHUNK = "chat.completion.chunk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer.

    Args:
        words: Its content, each in a chunk of its own.
        calls: Tools that it calls, with their arguments.
        finish_reason: Why it ends; "tool_calls" or "stop" if not given.
        breaks_after: Breaks off after so many words: what streams then ends without an end.
    """

    words: Sequence[str] = ()
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    finish_reason: str = ""
    breaks_after: int | None = None

    @property
    def reason(self) -> str:
        """Why it ends."""
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    def whole(self) -> Iterator[bytes]:
        """Gives it as one completion, in one piece."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self.words) or None}
        if self.calls:
            message["tool_calls"] = self._calls()
        choice = {"index": 0, "message": message, "finish_reason": self.reason}
        yield json.dumps({"object": "chat.completion", "choices": [choice]}).encode()

    def streamed(self) -> Iterator[bytes]:
        """Gives its events, to where it breaks off."""
        yield _event({"role": "assistant"})
        for word in self.words[: self.breaks_after]:
            yield _event({"content": word})
        if self.breaks_after is not None:
            return
        for index, call in enumerate(self._calls()):
            yield _event({"tool_calls": [{"index": index, **call}]})
        yield _event({}, self.reason)
        yield b"data: [DONE]\n\n"

    def _calls(self) -> list[dict[str, Any]]:
        return [
            {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for number, (name, given) in enumerate(self.calls)
        ]


def _event(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: %b\n\n" % json.dumps({"object": _CHUNK, "choices": [choice]}).encode()
