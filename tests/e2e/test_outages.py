"""Parts that die, freeze and come back: requests are served all the while, and reuse comes back by itself."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvlease.local.fleet import wait_ready
from tests.e2e.stack import ANSWERED_TTL, DEFERRED, Stack, assert_same, body, counter, named, tokens

pytestmark = pytest.mark.engine


def test_an_expired_lease_is_computed_instead(stack: Stack, conversation: str) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    time.sleep(ANSWERED_TTL + 2)
    stack.settle()  # nobody ended it: it expired
    history = history + said.tokens + tokens(50)

    again = stack.complete(history, conversation)

    assert again.cached == 0
    assert_same(again, stack.cold(history))


def test_a_registry_that_is_killed_is_done_without_and_comes_back_with_all_live_leases(
    stack: Stack, conversation: str
) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    held = len(history) + len(said.tokens) - 1
    stack.registry.kill()
    try:
        other = tokens(400)
        assert_same(stack.complete(other), stack.cold(other))
    finally:
        stack.registry.start()
    time.sleep(3)  # engines notice, open sessions and announce
    history = history + said.tokens + tokens(50)

    again = stack.complete(history, conversation)

    assert again.cached == held
    assert_same(again, stack.cold(history))


def test_turns_while_the_registry_is_away_are_all_answered_and_nothing_waits_on(
    stack: Stack, conversation: str
) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    turns = [history + said.tokens + tokens(50) for _ in range(20)]
    stack.registry.kill()
    try:
        with ThreadPoolExecutor(5) as pool:
            for turn, given in zip(turns, pool.map(lambda t: stack.complete(t, conversation), turns), strict=True):
                assert_same(given, stack.cold(turn))
        assert all(counter(engine, DEFERRED) == 0 for engine in stack.fleet)
    finally:
        stack.registry.start()
        stack.wait_until_pd()


def test_a_frozen_registry_adds_no_more_than_the_bounded_wait(stack: Stack, conversation: str) -> None:
    history = tokens(500)
    stack.complete(history, conversation)
    stack.registry.signal(signal.SIGSTOP)
    try:
        for _ in range(3):
            prompt = tokens(300)
            asked = body(prompt)
            response = stack.http.post("/v1/completions", json=asked, headers=named(conversation), timeout=20)
            assert response.status_code == 200
    finally:
        stack.registry.signal(signal.SIGCONT)
        stack.wait_until_pd()


def test_a_dead_router_is_done_without(stack: Stack, conversation: str) -> None:
    stack.router.kill()
    try:
        prompt = tokens(400)
        assert_same(stack.complete(prompt, conversation), stack.cold(prompt))
    finally:
        stack.router.start()
        stack.wait_until_pd()


def test_without_prefill_decode_serves_alone_and_with_it_again_both_do(stack: Stack, conversation: str) -> None:
    stack.prefill.kill()
    prompt = tokens(400)
    assert_same(stack.complete(prompt, conversation), stack.cold(prompt))

    stack.prefill.start()
    wait_ready([stack.prefill])
    stack.wait_until_pd()


def test_a_restarted_decode_computes_what_it_lost_and_then_reuses(stack: Stack, conversation: str) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    stack.decode.kill()
    missing = stack.http.post("/v1/completions", json=body(tokens(100)))
    assert missing.status_code == 503
    assert missing.json()["error"]["message"]
    stack.decode.start()
    wait_ready([stack.decode])
    stack.wait_until_pd()
    history = history + said.tokens + tokens(50)

    lost = stack.complete(history, conversation)
    history = history + lost.tokens + tokens(50)
    kept = stack.complete(history, conversation)

    assert lost.cached == 0
    assert kept.cached == len(history) - 51
    assert_same(kept, stack.cold(history))


def test_a_gateway_that_dies_leaves_no_block_held_longer_than_the_lease(stack: Stack, conversation: str) -> None:
    stack.complete(tokens(500), conversation)
    stack.gateway.kill()
    stack.gateway.start()
    stack.connect()

    stack.settle(within=ANSWERED_TTL + 10)
