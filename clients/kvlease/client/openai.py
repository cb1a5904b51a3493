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

from kvlease.client import arguments

HEADER = "X-Conversation-ID"


class Configurable(Protocol):
    """What is asked of an OpenAI client."""

    def with_options(self, *, default_headers: Mapping[str, str] | None = None) -> Self: ...


ClientT = TypeVar("ClientT", bound=Configurable)


def with_conversation(client: ClientT, conversation_id: str) -> ClientT:
    """Gives the client again, sharing its connections, with the conversation on every request.

    Raises:
        Malformed: The id is empty, longer than 256 bytes, or cannot stand in a header.
    """
    arguments.conversation(conversation_id)
    if not (conversation_id.isascii() and conversation_id.isprintable()):
        fault = "must be printable ASCII in a header: send others as `conversation_id` in extra_body"
        raise arguments.malformed("conversation_id", fault)
    return client.with_options(default_headers={HEADER: conversation_id})
