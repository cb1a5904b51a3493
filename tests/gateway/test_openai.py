"""OpenAI's own client is served as by OpenAI."""

from collections.abc import AsyncIterator

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from tests.gateway.stack import Stack
from tests.support.openai_engine import MODEL, told

ASK: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "Where are you?"}]


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{stack.gateway.url}/v1", api_key="k", max_retries=0) as made:
        yield made


async def test_a_chat(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=MODEL, messages=ASK, extra_body={"conversation_id": "c"})

    assert answer.choices[0].message.content == "Hello from afar"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


async def test_a_streamed_chat(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model=MODEL, messages=ASK, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]

    said = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert "".join(word or "" for word in said) == "Hello from afar"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens_details is not None


async def test_completions(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(model=MODEL, prompt="Where?", max_tokens=2)
    stream = await client.completions.create(model=MODEL, prompt="Where?", stream=True)

    assert answer.choices[0].text == "Hello from"
    assert [chunk.choices[0].text async for chunk in stream] == ["Hello", " from", " afar"]


async def test_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == [MODEL]


async def test_refusals_are_the_errors_that_openai_has_for_them(stack: Stack, client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await client.chat.completions.create(model="huge", messages=ASK)
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model=MODEL, messages=ASK, extra_body={"session_id": 42})
    stack.decode.next(told(503))
    with pytest.raises(openai.InternalServerError):
        await client.chat.completions.create(model=MODEL, messages=ASK)
