"""Parts that die, freeze and come back: requests are served all the while, and reuse comes back by itself."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import Seen
from tests.e2e.stack import Stack, assert_same, body, named, tokens

pytestmark = pytest.mark.engine


@pytest.mark.case(2)
def test_an_expired_lease_is_computed_instead(stack: Stack, conversation: str, seen: Seen) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    stack.settle(within=stack.ttl + 20)  # nobody ends it: it expires
    for _ in range(5):
        stack.complete(tokens(400))
    missed = stack.misses("NO_LEASE")
    history = history + said.tokens + tokens(50)

    again = stack.complete(history, conversation)

    assert again.cached == 0
    assert_same(again, stack.cold(history))
    assert stack.misses("NO_LEASE") == missed + 1
    seen(f"{again.cached} reused, the answer of a cold run; one more miss counted as NO_LEASE")


@pytest.mark.case(18, 30, 32)
@pytest.mark.parametrize("away", [0.0, 1.0], ids=["at once", "later"])
def test_a_registry_that_is_killed_is_done_without_and_comes_back_with_all_live_leases(
    stack: Stack, conversation: str, away: float, seen: Seen
) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    stack.leased(conversation)
    stack.renew(conversation, ttl=300)
    held, [before] = len(history) + len(said.tokens) - 1, stack.leases(conversation)
    stack.registry.kill()
    if away:
        other = tokens(400)
        assert_same(stack.complete(other), stack.cold(other))
    stack.registry.start()
    took = stack.leased(conversation)
    [after] = stack.leases(conversation)
    assert after.remaining <= before.remaining
    stack.wait_until_pd()  # prefill's session may be back a moment later
    history = history + said.tokens + tokens(50)

    again = stack.complete(history, conversation)

    assert again.cached == held
    assert_same(again, stack.cold(history))
    seen(
        f"leases back {took:.1f} s after the registry, {before.remaining - after.remaining:.1f} s older; {held} reused"
    )


@pytest.mark.case(20)
def test_turns_while_the_registry_is_away_are_all_answered_and_nothing_waits_on(
    stack: Stack, conversation: str, seen: Seen
) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    turns = [history + said.tokens + tokens(50) for _ in range(20)]
    stack.registry.kill()
    try:
        with ThreadPoolExecutor(5) as pool:
            for turn, given in zip(turns, pool.map(lambda t: stack.complete(t, conversation), turns), strict=True):
                assert_same(given, stack.cold(turn))
        stack.nobody_waits()
    finally:
        stack.registry.start()
        stack.wait_until_pd()
    seen(f"{len(turns)} right, none left waiting")


@pytest.mark.case(19)
def test_a_frozen_registry_adds_no_more_than_the_bounded_wait(stack: Stack, conversation: str, seen: Seen) -> None:
    stack.complete(tokens(500), conversation)
    stack.registry.signal(signal.SIGSTOP)
    took = []
    try:
        for _ in range(3):
            begun = time.monotonic()
            asked = body(tokens(300))
            response = stack.http.post("/v1/completions", json=asked, headers=named(conversation), timeout=60)
            took.append(time.monotonic() - begun)
            assert response.status_code == 200
    finally:
        stack.registry.signal(signal.SIGCONT)
        stack.wait_until_pd()
    seen(f"answered after {', '.join(f'{seconds:.1f}' for seconds in took)} s")


@pytest.mark.case(12)
def test_a_dead_router_is_done_without(stack: Stack, conversation: str, seen: Seen) -> None:
    stack.router.kill()
    try:
        prompt = tokens(400)
        assert_same(stack.complete(prompt, conversation), stack.cold(prompt))
    finally:
        stack.router.start()
        stack.wait_until_pd()
    seen("no router: decode alone")


@pytest.mark.case(10, 12)
def test_engines_that_die_are_done_without_and_reuse_is_back_once_they_are(
    stack: Stack, conversation: str, seen: Seen
) -> None:
    prompt = tokens(500)
    stack.prefill.kill()
    alone = stack.complete(prompt, conversation)
    assert_same(alone, stack.cold(prompt))
    stack.decode.kill()
    missing = stack.http.post("/v1/completions", json=body(tokens(100)))
    assert missing.status_code == 503
    assert missing.json()["error"]["message"]

    for engine in stack.engines:  # both at once: each takes half a minute
        engine.start()
    stack.wait_ready()
    stack.wait_until_pd()
    history = prompt + alone.tokens + tokens(50)
    lost = stack.complete(history, conversation)
    stack.leased(conversation)
    history = history + lost.tokens + tokens(50)
    kept = stack.complete(history, conversation)

    assert lost.cached == 0
    assert kept.cached == len(history) - 51
    assert_same(kept, stack.cold(history))
    seen(f"no prefill: decode alone; no decode: {missing.status_code}; back: {lost.cached}, then {kept.cached} reused")


@pytest.mark.case(21)
def test_a_gateway_that_dies_leaves_no_block_held_longer_than_the_lease(
    stack: Stack, conversation: str, seen: Seen
) -> None:
    stack.complete(tokens(500), conversation)
    stack.gateway.kill()
    stack.gateway.start()
    stack.connect()

    seen(f"leases of {stack.ttl:g} s; all free after {stack.settle(within=stack.ttl + 20):.1f} s")
