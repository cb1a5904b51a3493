"""Conversations with a deployment: one turn after the other, or several at once for as long as something happens."""

import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

QUESTION = "and what then? " * 50  # about 190 tokens, so that the first answer is worth a lease
_NUMBERS = count()
_PATIENCE = 30.0  # seconds for one answer


@dataclass(slots=True)
class Conversation:
    """A conversation, as its client knows it."""

    name: str = field(default_factory=lambda: f"talk-{next(_NUMBERS)}")
    messages: list[dict[str, Any]] = field(default_factory=list)
    reused: int = 0
    """Tokens of the last prompt that prefill did not compute."""
    held: int = 0
    """Tokens whose KV decode holds after the last answer: all but the last one."""

    def turn(self, host: str, port: int) -> None:
        """Asks and keeps the answer.

        Raises:
            OSError: no answer, or none that is 200.
        """
        asked = [*self.messages, {"role": "user", "content": f"{len(self.messages)} {QUESTION}"}]
        told = _post(host, port, {"model": "sim", "messages": asked, "max_tokens": 16}, self.name)
        self.messages = [*asked, told["choices"][0]["message"]]
        self.reused = told["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.held = told["usage"]["total_tokens"] - 1


def reuse(places: Sequence[tuple[str, int]], turns: int = 6) -> list[int]:
    """What each turn of a conversation reuses, that asks one place after the other. Raises OSError."""
    conversation, reused = Conversation(), []
    for turn in range(turns):
        conversation.turn(*places[turn % len(places)])
        reused.append(conversation.reused)
    return reused


def reuses(host: str, port: int) -> bool:
    """Whether a conversation's second turn reuses all of its first, which is more than decode's own prefix cache holds.

    Decode alone, before prefill is there, finds whole blocks only. Raises OSError.
    """
    conversation = Conversation()
    conversation.turn(host, port)
    held = conversation.held
    conversation.turn(host, port)
    return conversation.reused == held


@dataclass(slots=True)
class Load:
    """Several conversations at once, until left."""

    turns: int = 0
    failures: list[str] = field(default_factory=list)

    def more(self, turns: int, within: float = 60.0) -> None:
        """Waits for so many turns from now on."""
        wanted, deadline = self.turns + turns, time.monotonic() + within
        while self.turns < wanted:
            assert time.monotonic() < deadline, f"only {self.turns} turns; {self.failures}"
            time.sleep(0.05)


@contextmanager
def load(host: str, port: int, conversations: int = 4) -> Iterator[Load]:
    """Keeps asking while something happens to what answers."""
    made, stop = Load(), threading.Event()

    def talk() -> None:
        conversation = Conversation()
        while not stop.is_set():
            try:
                conversation.turn(host, port)
            except OSError as error:
                made.failures.append(str(error))
            made.turns += 1
            if len(conversation.messages) > 12:
                conversation = Conversation()
            stop.wait(0.1)

    threads = [threading.Thread(target=talk) for _ in range(conversations)]
    for thread in threads:
        thread.start()
    try:
        made.more(conversations)
        yield made
        made.more(3 * conversations)
    finally:
        stop.set()
        for thread in threads:
            thread.join(2 * _PATIENCE)


def stream(host: str, port: int, body: dict[str, Any]) -> Iterator[bytes]:
    """The lines of a streamed answer, as they come."""
    connection = http.client.HTTPConnection(host, port, timeout=_PATIENCE)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps({"model": "sim", "stream": True, **body}))
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        yield from answer
    finally:
        connection.close()


def _post(host: str, port: int, body: dict[str, Any], conversation: str) -> Any:
    connection = http.client.HTTPConnection(host, port, timeout=_PATIENCE)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"x-session-id": conversation})
        answer = connection.getresponse()
        said = answer.read()
    except http.client.HTTPException as error:
        raise OSError(repr(error)) from error
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError(f"{answer.status} {said[:300]!r}")
    return json.loads(said)
