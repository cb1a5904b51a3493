"""Chat in text: streaming or not, with bytes that are no text, as OpenAI's own client speaks it."""

import json
import uuid
from typing import Any

import httpx
import openai
import pytest

from kvlease.local import model
from tests.e2e.stack import TOLERANCE, Stack, named

pytestmark = pytest.mark.engine
ASKED: dict[str, Any] = {
    "model": model.NAME,
    "temperature": 0,
    "logprobs": True,
    "max_tokens": 40,
    "ignore_eos": True,
}


def logprobs(choice: dict[str, Any]) -> list[float]:
    return [token["logprob"] for token in choice["logprobs"]["content"]]


def cold(stack: Stack, messages: list[dict[str, str]]) -> list[float]:
    asked = ASKED | {"messages": messages, "cache_salt": uuid.uuid4().hex}
    response = httpx.post(f"{stack.decode.url}/v1/chat/completions", json=asked, timeout=60).json()
    return logprobs(response["choices"][0])


def streamed(stack: Stack, messages: list[dict[str, str]], conversation: str) -> tuple[str, list[float], int]:
    asked = ASKED | {"messages": messages, "stream": True, "stream_options": {"include_usage": True}}
    text, said, cached = "", [], -1
    with stack.http.stream("POST", "/v1/chat/completions", json=asked, headers=named(conversation)) as response:
        assert response.status_code == 200
        events = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    assert events.pop() == "[DONE]"
    for event in map(json.loads, events):
        if event.get("usage"):
            cached = event["usage"]["prompt_tokens_details"]["cached_tokens"]
        for choice in event["choices"]:
            text += choice["delta"].get("content") or ""
            said += logprobs(choice) if choice.get("logprobs") else []
    return text, said, cached


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_chat_reuses_its_history_and_says_what_a_cold_run_says(
    stack: Stack, conversation: str, *, stream: bool
) -> None:
    messages = [{"role": "user", "content": "Tell me about the sea. " * 15}]
    for turn in range(3):
        if stream:
            text, said, cached = streamed(stack, messages, conversation)
        else:
            response = stack.http.post(
                "/v1/chat/completions", json=ASKED | {"messages": messages}, headers=named(conversation)
            ).json()
            text = response["choices"][0]["message"]["content"]
            said = logprobs(response["choices"][0])
            cached = response["usage"]["prompt_tokens_details"]["cached_tokens"]
        # the model's bytes are rarely text: the history comes back with other tokens from the first such byte on
        assert cached >= (256 if turn else 0)
        expected = cold(stack, messages)
        assert len(said) == len(expected)
        assert max(abs(a - b) for a, b in zip(said, expected, strict=True)) < TOLERANCE
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And then? " * 12}]


def test_the_openai_package_is_served(stack: Stack, conversation: str) -> None:
    with openai.OpenAI(base_url=f"http://{stack.gateway.address}/v1", api_key="none", max_retries=0) as client:
        asked: Any = {
            "model": model.NAME,
            "max_tokens": 5,
            "messages": [{"role": "user", "content": "Good day! " * 30}],
        }
        whole = client.chat.completions.create(**asked, extra_headers=named(conversation))
        parts = list(client.chat.completions.create(**asked, extra_body={"conversation_id": conversation}, stream=True))

    assert whole.choices[0].finish_reason in {"length", "stop"}
    assert parts[-1].choices[0].finish_reason in {"length", "stop"}


@pytest.mark.parametrize("name", [42, {}, "x" * 10_000, "a\0b"])
def test_a_conversation_id_that_is_none_is_refused_in_openai_s_shape(stack: Stack, name: object) -> None:
    asked = ASKED | {"messages": [{"role": "user", "content": "x"}], "conversation_id": name}

    response = stack.http.post("/v1/chat/completions", json=asked)

    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
