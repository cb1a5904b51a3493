"""What a client sees of a turn, and what the engines and the router are told."""

import json
from typing import Any

import pytest

from kvlease.v1 import lease_pb2
from tests.gateway.stack import MESSAGES, Stack, running
from tests.support.openai_engine import MODEL, Received, completion, events

STREAM = {"stream": True, "stream_options": {"include_usage": True}}


async def test_decode_answers_and_both_legs_carry_the_ticket(stack: Stack) -> None:
    response = await stack.chat(session_id="c1", temperature=0.5)

    prefill, decode = await stack.prefill.request(), await stack.decode.request()
    assert response.json()["choices"][0]["message"]["content"] == "Hello from afar"
    assert prefill.ticket == decode.ticket is not None
    assert decode.body["messages"] == prefill.body["messages"] == MESSAGES
    assert decode.body["temperature"] == 0.5
    assert prefill.body["max_tokens"] == prefill.body["max_completion_tokens"] == 1


async def test_decode_is_sent_its_request_while_prefill_still_works(stack: Stack) -> None:
    stack.prefill.gate.clear()

    response = await stack.chat()

    assert response.status_code == 200
    assert not (await stack.prefill.request()).answered.is_set()


async def test_dispatch_may_wait_for_prefill() -> None:
    async with running(concurrent_dispatch=False) as stack:

        async def answer(received: Received, wire: Any) -> None:
            assert not stack.decode.received
            await wire.json(200, completion(received.body, ["x"], chat=True))

        stack.prefill.next(answer)

        assert (await stack.chat()).status_code == 200


async def test_without_prefill_engines_decode_works_alone(stack: Stack) -> None:
    del stack.registry.engines["prefill"]

    response = await stack.chat()

    assert response.status_code == 200
    assert (await stack.decode.request()).ticket
    assert not stack.prefill.received


@pytest.mark.parametrize("extra", [{}, STREAM])
async def test_cached_tokens_are_those_that_prefill_did_not_compute(stack: Stack, extra: dict[str, Any]) -> None:
    first = await stack.chat(session_id="c1", **extra)
    second = await stack.chat(session_id="c1", **extra)

    report = stack.router._by_request  # the fake's turns, in order
    reused = [turn.ticket.report.reused_tokens for turn in report.values()]
    assert [_usage(first)["prompt_tokens_details"]["cached_tokens"] for first in (first, second)] == reused
    assert reused[1] > 0


async def test_a_stream_is_unchanged_but_for_usage(stack: Stack) -> None:
    response = await stack.chat(**STREAM, n=2)

    sent = events({**STREAM, "n": 2}, stack.decode.words, chat=True)
    got = [event + b"\n\n" for event in response.content.split(b"\n\n")[:-1]]
    assert got[:-2] + got[-1:] == sent[:-2] + sent[-1:]
    assert _usage(response) == {**json.loads(sent[-2][6:])["usage"], "prompt_tokens_details": {"cached_tokens": 0}}


@pytest.mark.parametrize("extra", [{}, {"stream": True}])
async def test_completions_are_served_like_chats(stack: Stack, extra: dict[str, Any]) -> None:
    body = {"model": MODEL, "prompt": [1, 2, 3], **extra}

    response = await stack.http.post("/v1/completions", json=body)

    assert response.status_code == 200
    assert "max_completion_tokens" not in (await stack.prefill.request()).body
    [routed] = stack.calls("Route")
    assert routed.prompt_tokens == 3


@pytest.mark.parametrize(
    ("reason", "stopped"),
    [
        ("stop", lease_pb2.STOP_REASON_ANSWERED),
        ("length", lease_pb2.STOP_REASON_LENGTH),
        ("tool_calls", lease_pb2.STOP_REASON_TOOLS_CALLED),
    ],
)
async def test_the_ticket_is_completed_with_why_decode_stopped(
    stack: Stack, reason: str, stopped: lease_pb2.StopReason.ValueType
) -> None:
    async def answer(received: Received, wire: Any) -> None:
        whole = completion(received.body, ["x"], chat=True)
        whole["choices"][0]["finish_reason"] = reason
        await wire.json(200, whole)

    stack.decode.next(answer)

    await stack.chat()

    assert [request.stop_reason for request in stack.calls("CompleteTicket")] == [stopped]


async def test_a_stream_ends_only_after_its_ticket_is_completed(stack: Stack) -> None:
    """Else the next turn could come before the registry knows that a grant is due."""
    async with stack.http.stream("POST", "/v1/chat/completions", json=_streamed()) as response:
        seen = b""
        async for data in response.aiter_raw():
            seen += data
            if b'"finish_reason":"stop"' in seen:
                assert stack.calls("CompleteTicket")
    assert seen.endswith(b"data: [DONE]\n\n")


async def test_each_leg_has_a_request_id_of_its_own(stack: Stack) -> None:
    """Ten requests with one and the same X-Request-Id do not meet in the engines (case 5)."""
    for number in range(10):
        await stack.http.post(
            "/v1/chat/completions",
            json={"model": MODEL, "messages": MESSAGES, "session_id": f"c{number}"},
            headers={"X-Request-Id": "same"},
        )

    received = stack.prefill.received + stack.decode.received
    assert len({each.headers["x-request-id"] for each in received}) == 20
    assert len({request.request_id for request in stack.calls("Route")}) == 10


async def test_credentials_and_traces_reach_both_engines(stack: Stack) -> None:
    headers = {"Authorization": "Bearer k", "traceparent": "00-1-2-01", "Cookie": "c"}

    await stack.http.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES}, headers=headers)

    for received in (await stack.prefill.request(), await stack.decode.request()):
        assert received.headers["authorization"] == "Bearer k"
        assert received.headers["traceparent"] == "00-1-2-01"
        assert "cookie" not in received.headers


async def test_a_data_parallel_rank_is_named_where_there_are_several(stack: Stack) -> None:
    engine = stack.registry.engines["decode"].engine
    engine.data_parallel_size, engine.data_parallel_rank = 2, 1
    await stack.called("ListEngines", len(stack.calls("ListEngines")) + 2)
    stack.router.stop()

    await stack.chat()

    assert (await stack.decode.request()).headers["x-data-parallel-rank"] == "1"


async def test_both_legs_of_a_routed_turn_go_to_the_ranks_that_were_chosen(stack: Stack) -> None:
    for name, rank in (("prefill", 0), ("decode", 3)):
        engine = stack.registry.engines[name].engine
        engine.data_parallel_size, engine.data_parallel_rank = 4, rank

    await stack.chat()

    assert (await stack.prefill.request()).headers["x-data-parallel-rank"] == "0"
    assert (await stack.decode.request()).headers["x-data-parallel-rank"] == "3"


@pytest.mark.parametrize("smuggled", ["kv_transfer_params", "ec_transfer_params"])
async def test_transfer_parameters_of_a_client_are_stripped(stack: Stack, smuggled: str) -> None:
    """Case 7."""
    theirs = {"do_remote_prefill": True, "remote_host": "10.6.6.6"}

    response = await stack.chat(**{smuggled: theirs}, vllm_xargs={smuggled: "x", "mine": "y"})

    assert response.status_code == 200
    for received in (await stack.prefill.request(), await stack.decode.request()):
        assert received.body["kv_transfer_params"].keys() == {"kvlease_ticket"}
        assert received.body["vllm_xargs"] == {"mine": "y"}
        assert "ec_transfer_params" not in received.body


def _streamed(**body: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": MESSAGES, "stream": True, **body}


def _usage(response: Any) -> dict[str, Any]:
    if response.headers["content-type"] == "application/json":
        return response.json()["usage"]  # type: ignore[no-any-return]
    told = [json.loads(line[6:]) for line in response.text.split("\n\n") if line.startswith("data: {")]
    [found] = [each["usage"] for each in told if each.get("usage")]
    return found  # type: ignore[no-any-return]
