"""What each engine is sent."""

import json
from typing import Any

import pytest

from kvlease.client import trace
from kvlease.gateway.http.message import Request
from kvlease.gateway.legs import decode_body, leg_headers, prefill_body
from kvlease.gateway.prompt import CHAT, COMPLETIONS, Prompt, read_prompt

# All that vLLM's renderers may read: the prompt must be the same on both legs.
SHAPES_THE_PROMPT: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "required",
    "response_format": {"type": "json_object"},
    "chat_template": "x",
    "chat_template_kwargs": {"enable_thinking": False},
    "add_generation_prompt": False,
    "continue_final_message": True,
    "documents": [{"title": "t", "text": "x"}],
    "reasoning_effort": "low",
    "mm_processor_kwargs": {"a": 1},
    "add_special_tokens": True,
    "truncate_prompt_tokens": 10,
    "cache_salt": "s",
    "priority": 3,
    "something_new": [1],
}
SHAPES_THE_ANSWER: dict[str, Any] = {
    "stream_options": {"include_usage": True},
    "best_of": 3,
    "logprobs": True,
    "top_logprobs": 5,
    "min_tokens": 10,
    "stop": ["x"],
    "stop_token_ids": [1],
    "structured_outputs": {"regex": "a"},
    "seed": 1,
    "logit_bias": {"1": 2},
    "return_token_ids": True,
}


def prompt(path: str = CHAT, **body: Any) -> Prompt:
    return read_prompt(Request("POST", path, [], json.dumps({"model": "m", "messages": [], **body}).encode()))


def decode(made: Prompt, ticket: str = "t") -> dict[str, Any]:
    return json.loads(b"".join(decode_body(made, ticket)))  # type: ignore[no-any-return]


def prefill(made: Prompt) -> dict[str, Any]:
    return json.loads(b"".join(prefill_body(made, "t")))  # type: ignore[no-any-return]


def test_prefill_gets_all_that_shapes_the_prompt() -> None:
    got = prefill(prompt(**SHAPES_THE_PROMPT))

    assert {name: got[name] for name in SHAPES_THE_PROMPT} == SHAPES_THE_PROMPT


def test_prefill_gets_nothing_that_shapes_the_answer_alone() -> None:
    got = prefill(prompt(**SHAPES_THE_ANSWER, stream=True, n=4, max_completion_tokens=90, temperature=1.5))

    assert not SHAPES_THE_ANSWER.keys() & got.keys()
    assert (got["stream"], got["n"], got["max_tokens"], got["max_completion_tokens"]) == (False, 1, 1, 1)
    assert got["ignore_eos"] is True


def test_decode_gets_the_clients_body_and_the_ticket() -> None:
    got = decode(prompt(**SHAPES_THE_ANSWER, session_id="a", conversation_id="a"))

    assert got == {"model": "m", "messages": [], **SHAPES_THE_ANSWER, "kv_transfer_params": {"kvlease_ticket": "t"}}


def test_without_a_ticket_decode_gets_no_transfer_parameters() -> None:
    assert "kv_transfer_params" not in decode(prompt(kv_transfer_params={"do_remote_decode": True}), "")


def test_members_keep_their_bytes() -> None:
    body = b'{"model":"m", "messages" : [ {"content": "\\u00e9\xc3\xa9", "n": 1.0e0} ]}'

    sent = b"".join(decode_body(read_prompt(Request("POST", CHAT, [], body)), ""))

    assert b'[ {"content": "\\u00e9\xc3\xa9", "n": 1.0e0} ]' in sent


def test_of_a_repeated_member_only_the_last_is_sent() -> None:
    body = b'{"model":"m","messages":[],"n":1,"kv_transfer_params":{"a":1},"n":2,"kv_transfer_params":{"b":1}}'

    assert decode(read_prompt(Request("POST", CHAT, [], body)), "") == {"model": "m", "messages": [], "n": 2}


@pytest.mark.parametrize("theirs", [None, 1, "x", {}, {"kv_transfer_params": "x"}])
def test_extra_arguments_carry_no_transfer_parameters(theirs: Any) -> None:
    got = decode(prompt(vllm_xargs=theirs))["vllm_xargs"]

    assert got == ({} if isinstance(theirs, dict) else theirs)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"prompt_logprobs": 1}),
        (CHAT, {"use_beam_search": True}),
        (CHAT, {"truncate_prompt_tokens": -1}),
        (CHAT, {"echo": True, "logprobs": True}),
        (COMPLETIONS, {"prompt": ["a", "b"]}),
        (COMPLETIONS, {"prompt": [[1], [2]]}),
        (COMPLETIONS, {"prompt_embeds": "x"}),
    ],
)
def test_decode_serves_alone_what_prefill_cannot_help_with(path: str, body: dict[str, Any]) -> None:
    assert prompt(path, **body).alone


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"prompt_logprobs": None, "echo": True, "logprobs": False}),
        (CHAT, {"truncate_prompt_tokens": 5}),
        (COMPLETIONS, {"prompt": "a"}),
        (COMPLETIONS, {"prompt": ["a"]}),
        (COMPLETIONS, {"prompt": [1, 2]}),
        (COMPLETIONS, {"prompt": []}),
    ],
)
def test_any_other_prompt_goes_to_both(path: str, body: dict[str, Any]) -> None:
    assert not prompt(path, **body).alone


@pytest.mark.parametrize(
    ("body", "choices"), [({}, 1), ({"n": 3}, 3), ({"n": 2, "prompt": ["a", "b"]}, 4), ({"n": 0}, 1)]
)
def test_answers_are_counted_over_choices_and_prompts(body: dict[str, Any], choices: int) -> None:
    assert prompt(COMPLETIONS, **body).choices == choices


def test_a_rank_is_sent_where_there_is_one() -> None:
    request = Request("POST", CHAT, [(b"x-request-id", b"theirs"), (b"authorization", b"a"), (b"accept", b"b")])

    assert leg_headers(request, "ours", 3) == [
        (b"content-type", b"application/json"),
        (b"x-request-id", b"ours"),
        (b"authorization", b"a"),
        (b"x-data-parallel-rank", b"3"),
    ]


def test_engines_get_the_trace_that_is_worked_for_else_the_clients_headers() -> None:
    theirs = [(b"traceparent", b"theirs"), (b"tracestate", b"a=1"), (b"baggage", b"b=2")]
    request = Request("POST", CHAT, theirs)
    ours = trace.read([("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")])

    assert leg_headers(request, "ours", None)[2:] == theirs
    with trace.carrying(ours):
        sent = leg_headers(request, "ours", None)[2:]

    assert sent == [(b"traceparent", ours[0][1].encode()), (b"baggage", b"b=2")]
