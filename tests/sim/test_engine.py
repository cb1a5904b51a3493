"""A simulated engine answers like an OpenAI server, and its answers are known."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import openai
import pytest

from kvlease.sim import answer, tokens
from kvlease.sim.latency import Latency
from tests.sim.lone import PROMPT, Lone, lone
from tests.sim.stack import until

CHAT = "/v1/chat/completions"


@pytest.fixture
async def engine() -> AsyncIterator[Lone]:
    async with lone() as running:
        yield running


def right(count: int) -> str:
    return answer.text(tokens.of_chat(PROMPT), count)


async def test_an_answer_is_the_right_one_up_to_its_limit(engine: Lone) -> None:
    told = await engine.chat(max_tokens=5)

    [choice] = told["choices"]
    assert (choice["message"], choice["finish_reason"]) == ({"role": "assistant", "content": right(5)}, "length")
    assert told["usage"]["completion_tokens"] == 5


async def test_an_answer_ends_by_itself(engine: Lone) -> None:
    told = await engine.chat()

    assert told["choices"][0]["message"]["content"] == right(64)
    assert told["choices"][0]["finish_reason"] == "stop"
    assert told["usage"]["completion_tokens"] == 65


async def test_an_answer_that_ignores_its_end_goes_on(engine: Lone) -> None:
    told = await engine.chat(max_tokens=100, ignore_eos=True)

    assert told["usage"]["completion_tokens"] == 100


async def test_a_stream_has_a_word_an_event_and_its_usage_at_the_end(engine: Lone) -> None:
    body = {"messages": PROMPT, "max_tokens": 5, "stream": True, "stream_options": {"include_usage": True}}
    async with engine.http.post(CHAT, json=body) as reply:
        events = [line[6:] for line in (await reply.text()).split("\n\n") if line]

    chunks = [json.loads(event) for event in events[:-1]]
    said = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]
    assert said == ["", *(right(5)[n : n + 4] for n in range(0, 20, 4)), None]
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["usage"]["completion_tokens"] == 5
    assert events[-1] == "[DONE]"


async def test_the_openai_package_reads_it(engine: Lone) -> None:
    async with openai.AsyncOpenAI(base_url=f"{engine.instance.url}/v1", api_key="none") as client:
        models = await client.models.list()
        asked: dict[str, Any] = {"model": models.data[0].id, "messages": PROMPT, "max_tokens": 5}
        stream = await client.chat.completions.create(**asked, stream=True)
        said = [chunk.choices[0].delta.content or "" async for chunk in stream]

    assert "".join(said) == right(5)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_is_called_where_one_is_required(engine: Lone, stream: bool) -> None:
    async with openai.AsyncOpenAI(base_url=f"{engine.instance.url}/v1", api_key="none") as client:
        asked: dict[str, Any] = {"tools": [{"type": "function", "function": {"name": "look"}}]}
        asked |= {"model": "sim", "messages": PROMPT, "tool_choice": "required"}
        if stream:
            pieces = [chunk async for chunk in await client.chat.completions.create(**asked, stream=True)]
            calls = [c for p in pieces for c in p.choices[0].delta.tool_calls or ()]
            arguments = "".join(call.function.arguments or "" for call in calls if call.function)
            finish = pieces[-1].choices[0].finish_reason
        else:
            [choice] = (await client.chat.completions.create(**asked)).choices
            arguments, finish = choice.message.tool_calls[0].function.arguments, choice.finish_reason

    assert (arguments, finish) == (right(64), "tool_calls")


async def test_tokens_may_be_given_as_a_prompt(engine: Lone) -> None:
    status, told = await engine.post("/v1/completions", prompt=list(range(50)), max_tokens=3)

    assert status == 200
    assert told["choices"][0]["text"] == answer.text(tokens.of_prompt(list(range(50))), 3)


async def test_the_tokens_of_an_answer_are_told_if_asked_for_and_are_certain(engine: Lone) -> None:
    prompt = list(range(50))
    _, told = await engine.post("/v1/completions", prompt=prompt, max_tokens=3, logprobs=1, return_token_ids=True)

    [choice] = told["choices"]
    assert choice["token_ids"] == list(tokens.encode(choice["text"]))
    assert choice["logprobs"] == {"token_logprobs": [0.0] * 3}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"messages": []}, 400),
        ({"messages": PROMPT, "n": 3}, 400),
        ({"messages": PROMPT, "max_tokens": 0}, 400),
        ({"messages": PROMPT, "max_tokens": "five"}, 400),
        ({"messages": [{"role": "user", "content": "long" * 9000}]}, 400),
        ({"messages": PROMPT, "model": "another"}, 404),
    ],
)
async def test_what_cannot_be_answered_is_refused_in_words(engine: Lone, body: dict[str, Any], status: int) -> None:
    told, refusal = await engine.post(CHAT, **body)

    assert told == status
    assert refusal["error"]["message"]


async def test_the_name_of_a_request_comes_back(engine: Lone) -> None:
    async with engine.http.post(CHAT, json={"messages": PROMPT}, headers={"x-request-id": "mine"}) as reply:
        assert reply.headers["x-request-id"] == "mine"


async def test_a_prompt_seen_before_is_found_in_the_prefix_cache(engine: Lone) -> None:
    first, second = await engine.chat(max_tokens=1), await engine.chat(max_tokens=1)

    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == 64
    async with engine.http.post("/reset_prefix_cache"):
        third = await engine.chat(max_tokens=1)
    assert third["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_nothing_is_held_after_an_answer(engine: Lone) -> None:
    await engine.chat()

    assert await engine.metric("vllm:kv_cache_usage_perc") == 0
    assert await engine.metric("kvlease_sim_used_blocks") == 0


async def test_a_client_that_leaves_takes_its_request_with_it() -> None:
    async with lone(latency=Latency(token=0.02)) as engine:
        body = {"messages": PROMPT, "stream": True, "ignore_eos": True}
        async with engine.http.post(CHAT, json=body) as reply:
            await reply.content.readline()
            reply.close()

        await until(lambda: engine.instance.engine.pool.usage == 0)
        assert await engine.metric("kvlease_sim_aborted_total") == 1


async def test_all_requests_can_be_aborted() -> None:
    async with lone(latency=Latency(token=0.02)) as engine:
        asking = asyncio.create_task(engine.chat(ignore_eos=True))
        await until(lambda: bool(engine.instance.engine.scheduler.running))

        assert await engine.post("/admin/abort") == (200, {"aborted": 1})
        assert (await asking)["choices"][0]["finish_reason"] == "abort"


async def test_more_requests_than_fit_are_all_answered() -> None:
    async with lone(blocks=24) as engine:
        answers = await asyncio.gather(*(engine.chat() for _ in range(8)))

        assert {told["choices"][0]["message"]["content"] for told in answers} == {right(64)}
        assert engine.instance.engine.pool.usage == 0


async def test_preempted_requests_are_answered_right() -> None:
    async with lone(blocks=30, prefix_caching=False) as engine:
        prompts = [[{"role": "user", "content": f"question {n}"}] for n in range(8)]
        answers = await asyncio.gather(*(engine.chat(messages=prompt) for prompt in prompts))

        said = [told["choices"][0]["message"]["content"] for told in answers]
        assert said == [answer.text(tokens.of_chat(prompt), 64) for prompt in prompts]
        assert await engine.metric("vllm:num_preemptions_total") > 0


@pytest.mark.parametrize("fault", ["fail_next", "drop_next"])
async def test_an_engine_fails_as_often_as_it_is_told_to(engine: Lone, fault: str) -> None:
    await engine.post("/admin/faults", **{fault: 1})

    if fault == "fail_next":
        assert (await engine.post(CHAT, messages=PROMPT))[0] == 500
    else:
        with pytest.raises(aiohttp.ClientError):
            await engine.post(CHAT, messages=PROMPT)
    assert (await engine.chat(max_tokens=5))["choices"][0]["message"]["content"] == right(5)


async def test_a_frozen_engine_answers_when_it_is_thawed(engine: Lone) -> None:
    await engine.post("/admin/faults", freeze=60)
    asking = asyncio.create_task(engine.chat(max_tokens=5))
    await engine.metric("vllm:num_requests_waiting")
    assert not asking.done()

    await engine.post("/admin/faults", freeze=0)

    assert (await asking)["choices"][0]["message"]["content"] == right(5)


async def test_a_fault_that_is_none_is_refused(engine: Lone) -> None:
    status, refusal = await engine.post("/admin/faults", explode=1)

    assert status == 400
    assert "explode" in refusal["error"]["message"]


async def test_an_engine_that_crashed_comes_back_as_another_incarnation(engine: Lone) -> None:
    before = engine.instance.engine

    await engine.post("/admin/crash", restart_after=0.05)
    await until(lambda: engine.instance.running and engine.instance.engine is not before)

    assert (await engine.chat(max_tokens=5))["choices"][0]["message"]["content"] == right(5)


async def test_an_unknown_page_is_not_found(engine: Lone) -> None:
    assert (await engine.post("/v1/nothing"))[0] == 404
