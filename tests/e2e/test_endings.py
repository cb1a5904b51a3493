"""Requests that end in every way there is: no block stays held, and what is reused is right."""

import socket
import time

import httpx
import pytest

from kvlease.local import model
from tests.conftest import Seen
from tests.e2e.stack import Stack, answer, assert_same, body, named, tokens

pytestmark = pytest.mark.engine


@pytest.mark.case(24)
def test_a_turn_that_ends_on_a_stop_string_of_the_client_is_kept(stack: Stack, conversation: str, seen: Seen) -> None:
    prompt = tokens(400)
    free = stack.complete(prompt, conversation, max_tokens=20)
    letter = chr(free.tokens[12] - 5) if 37 <= free.tokens[12] <= 131 else None
    stop = [letter] if letter else ["no such text"]
    said = stack.complete(prompt, conversation, max_tokens=20, stop=stop)
    history = prompt + said.tokens + tokens(100)

    again = stack.complete(history, conversation)

    assert again.cached >= 3 * 128
    assert_same(again, stack.cold(history))
    seen(f"ended after {len(said.tokens)} tokens; {again.cached} of {len(history)} reused")


def test_a_turn_of_one_token_is_reused(stack: Stack, conversation: str) -> None:
    prompt = tokens(400)
    said = stack.complete(prompt, conversation, max_tokens=1)
    history = prompt + said.tokens + tokens(100)

    again = stack.complete(history, conversation)

    assert again.cached == len(prompt)
    assert_same(again, stack.cold(history))


def test_each_of_three_answers_to_one_prompt_can_be_gone_on_with(stack: Stack, conversation: str) -> None:
    prompt = tokens(400)
    asked = body(prompt, n=3, temperature=1.0, seed=7, max_tokens=140)
    response = stack.http.post("/v1/completions", json=asked, headers=named(conversation)).json()
    assert len(response["choices"]) == 3
    stack.leased(conversation, 3)

    for choice in response["choices"]:
        history = prompt + choice["token_ids"] + tokens(80)
        again = stack.complete(history, conversation)
        assert again.cached == len(prompt) + 139
        assert_same(again, stack.cold(history))


@pytest.mark.case(22)
def test_a_client_that_leaves_in_mid_stream_leaves_no_block_held(stack: Stack, conversation: str, seen: Seen) -> None:
    asked = body(tokens(2000), stream=True, max_tokens=2000)
    with stack.http.stream("POST", "/v1/completions", json=asked, headers=named(conversation)) as response:
        lines = response.iter_lines()
        for _ in range(5):
            next(lines)

    seen(f"left in mid-stream: all free after {stack.settle(conversation):.1f} s")


@pytest.mark.case(22)
@pytest.mark.parametrize("after", [0.0, 0.05, 0.2, 0.5])
def test_a_client_that_leaves_at_any_time_leaves_no_block_held(
    stack: Stack, conversation: str, after: float, seen: Seen
) -> None:
    history = tokens(3000)
    said = stack.complete(history, conversation)
    asked = httpx.Request(
        "POST",
        f"http://{stack.gateway.address}/v1/completions",
        json=body(history + said.tokens + tokens(1500), max_tokens=500),
        headers=named(conversation),
    )
    head = b"POST /v1/completions HTTP/1.1\r\n" + b"".join(b"%s: %s\r\n" % h for h in asked.headers.raw) + b"\r\n"
    with socket.create_connection(("127.0.0.1", stack.gateway.port)) as client:
        client.sendall(head + asked.content)
        time.sleep(after)

    seen(f"left after {after:g} s: all free after {stack.settle(conversation):.1f} s")


@pytest.mark.case(23)
@pytest.mark.parametrize(
    ("wrong", "status"), [({"model": "nobody"}, 404), ({"temperature": -1}, 400), ({"max_tokens": 10**9}, 400)]
)
def test_a_request_that_engines_reject_leaves_no_block_held(
    stack: Stack, conversation: str, wrong: dict[str, object], status: int, seen: Seen
) -> None:
    response = stack.http.post("/v1/completions", json=body(tokens(500), **wrong), headers=named(conversation))

    assert response.status_code == status
    assert response.json()["error"]["message"]
    seen(f"{next(iter(wrong))}: {response.status_code}, all free after {stack.settle():.1f} s")


@pytest.mark.case(23)
def test_a_second_turn_that_is_too_long_leaves_no_block_held(stack: Stack, conversation: str, seen: Seen) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    stack.leased(conversation)
    asked = body(history + said.tokens + tokens(70_000))

    response = stack.http.post("/v1/completions", json=asked, headers=named(conversation))

    assert response.status_code == 400
    assert response.json()["error"]["message"]
    seen(f"too long: {response.status_code}, all free after {stack.settle(conversation):.1f} s")


@pytest.mark.case(13)
def test_a_request_straight_to_decode_with_odd_parameters_is_served_and_freed(stack: Stack, seen: Seen) -> None:
    for params in ({"x": 1}, {"do_remote_prefill": True}, {"do_remote_prefill": True, "remote_block_ids": [[1]]}):
        asked = body(tokens(400), kv_transfer_params=params)
        assert httpx.post(f"{stack.decode.url}/v1/completions", json=asked, timeout=60).status_code == 200
    seen(f"served, all free after {stack.settle():.1f} s")


def test_a_stock_proxy_still_gets_decode_to_read_what_prefill_computed(stack: Stack) -> None:
    prompt = tokens(700)
    first = {"do_remote_decode": True, "do_remote_prefill": False}
    prefilled = httpx.post(
        f"{stack.prefill.url}/v1/completions", json=body(prompt, max_tokens=1, kv_transfer_params=first), timeout=60
    ).json()
    handed = body(prompt, kv_transfer_params=prefilled["kv_transfer_params"])

    said = answer(httpx.post(f"{stack.decode.url}/v1/completions", json=handed, timeout=60).json())

    assert_same(said, stack.cold(prompt))
    stack.settle()


def test_the_models_are_those_of_the_engines(stack: Stack) -> None:
    assert [entry["id"] for entry in stack.http.get("/v1/models").json()["data"]] == [model.NAME]
