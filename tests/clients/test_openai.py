"""The `openai` package beside the client."""

from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI

from kvlease.client.errors import Malformed
from kvlease.client.openai import with_conversation
from kvlease.client.testing import FakeEngine
from tests.support.openai_engine import MODEL, engines

MESSAGES: list[Any] = [{"role": "user", "content": "Where are you?"}]


async def test_every_request_names_its_conversation() -> None:
    async with engines("gateway") as made, AsyncOpenAI(base_url=f"{made['gateway'].url}/v1", api_key="-") as client:
        talk = with_conversation(client, "42")
        await talk.chat.completions.create(model=MODEL, messages=MESSAGES)
        await client.chat.completions.create(model=MODEL, messages=MESSAGES)

        with_one, without = made["gateway"].received
        assert with_one.headers["x-conversation-id"] == "42"
        assert "x-conversation-id" not in without.headers


def test_a_client_for_threads_keeps_its_headers() -> None:
    with OpenAI(base_url="http://gateway/v1", api_key="-", default_headers={"X-Team": "a"}) as client:
        talk = with_conversation(client, "42")

        assert talk.default_headers["X-Team"] == "a"
        assert talk.default_headers["X-Conversation-ID"] == "42"


@pytest.mark.parametrize("name", ["", "x" * 257, "ünï", "a\nb"])
def test_what_cannot_stand_in_a_header_is_refused(name: str) -> None:
    with OpenAI(base_url="http://gateway/v1", api_key="-") as client, pytest.raises(Malformed):
        with_conversation(client, name)


def test_the_fake_engine_answers_whole_too() -> None:
    with FakeEngine(["Hi"]) as engine, OpenAI(base_url=f"{engine.url}/v1", api_key="-") as client:
        answer = client.chat.completions.create(model=MODEL, messages=MESSAGES)

    assert answer.choices[0].message.content == "Hi"
    assert engine.requests[0]["model"] == MODEL
