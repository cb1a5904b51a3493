"""Beside the `openai` package: an OpenAI client whose requests belong to a conversation, for use with a gateway.

    openai = OpenAI(base_url="http://gateway:8440/v1", api_key="-")
    with Client(registry="registry:7440") as client, client.conversation("42"):
        talk = with_conversation(openai, "42")
        talk.chat.completions.create(model="my-model", messages=messages)
        run_a_slow_tool()

Knows nothing of that package but `with_options`, so that it works with `OpenAI` and `AsyncOpenAI` of any version.
"""

from collections.abc import Mapping
from typing import Protocol, Self, TypeVar

from kvlease.client.errors import Malformed

HEADER = "X-Conversation-ID"
MAX_BYTES = 256


class Configurable(Protocol):
    """What is asked of an OpenAI client."""

    def with_options(self, *, default_headers: Mapping[str, str] | None = None) -> Self: ...


ClientT = TypeVar("ClientT", bound=Configurable)


def with_conversation(client: ClientT, conversation_id: str) -> ClientT:
    """Gives the client again, sharing its connections, with the conversation on every request.

    Raises:
        Malformed: The id is empty, longer than 256 bytes, or cannot stand in a header.
    """
    if not 0 < len(conversation_id.encode()) <= MAX_BYTES:
        raise Malformed(
            f"a conversation id has 1 to {MAX_BYTES} bytes", violations={"conversation_id": "empty or too long"}
        )
    if not (conversation_id.isascii() and conversation_id.isprintable()):
        raise Malformed(
            "in a header a conversation id is printable ASCII: send others as `conversation_id` in extra_body",
            violations={"conversation_id": "not printable ASCII"},
        )
    return client.with_options(default_headers={HEADER: conversation_id})
