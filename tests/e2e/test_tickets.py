"""Turns whose legs an application sends itself: late, for another tenant, under another salt."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvlease.client.sync import Client
from kvlease.client.types import LeaseKind
from kvlease.local import model
from tests.conftest import Seen
from tests.e2e.stack import READS, Stack, assert_same, body, counter, named, tokens

pytestmark = pytest.mark.engine


@pytest.mark.case(3)
def test_decode_that_comes_after_prefills_lease_computes(stack: Stack, conversation: str, seen: Seen) -> None:
    prompt = tokens(400)
    turn = stack.client.route(model.NAME, conversation_id=conversation, prompt_tokens=len(prompt))
    stack.leg(stack.prefill, turn.ticket, prompt, max_tokens=1)
    lapsed = stack.settle()
    reads = counter(stack.decode, READS)

    said = stack.leg(stack.decode, turn.ticket, prompt)

    stack.client.complete(turn.ticket)
    assert_same(said, stack.cold(prompt))
    late = counter(stack.decode, READS) - reads
    seen(f"prefill's blocks free after {lapsed:.1f} s, then {late:.0f} reads and the answer of a cold run")
    assert not late


@pytest.mark.case(6)
def test_another_tenant_gets_nothing_of_a_conversation_of_the_same_name(
    stack: Stack, conversation: str, seen: Seen
) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    stack.leased(conversation)
    history = history + said.tokens + tokens(50)
    with Client(registry=stack.registry.address, router=stack.router.address, tenant="another") as other:
        turn = other.route(model.NAME, conversation_id=conversation, prompt_tokens=len(history))
        stack.leg(stack.prefill, turn.ticket, history, max_tokens=1)
        theirs = stack.leg(stack.decode, turn.ticket, history)
        report = other.complete(turn.ticket)
        while not other.list_leases(conversation_id=conversation, kind=LeaseKind.DECODE):
            time.sleep(0.02)
        other.end(conversation)

    mine = stack.complete(history, conversation)

    assert_same(theirs, stack.cold(history))
    assert report is not None
    seen(f"reused: the other tenant {report.reused_tokens}, the first one {mine.cached}")
    assert report.reused_tokens == 0
    assert mine.cached > 0


@pytest.mark.case(6)
def test_two_clients_with_one_conversation_s_name_get_their_own_answers(
    stack: Stack, conversation: str, seen: Seen
) -> None:
    prompts = [tokens(300), tokens(400)]
    with ThreadPoolExecutor(2) as pool:
        firsts = list(pool.map(lambda prompt: stack.complete(prompt, conversation), prompts))
        histories = [prompt + said.tokens + tokens(40) for prompt, said in zip(prompts, firsts, strict=True)]
        answers = list(pool.map(lambda history: stack.complete(history, conversation), histories))

    for history, given in zip(histories, answers, strict=True):
        assert_same(given, stack.cold(history))
    seen(f"two clients, one name: both right, {[given.cached for given in answers]} reused")


@pytest.mark.case(9)
def test_the_same_tokens_under_another_salt_are_not_reused(stack: Stack, conversation: str, seen: Seen) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation, cache_salt=uuid.uuid4().hex)
    stack.leased(conversation)
    history = history + said.tokens + tokens(50)

    again = stack.complete(history, conversation, cache_salt=uuid.uuid4().hex)

    stack.leased(conversation, 2)
    seen(f"another salt: {again.cached} of {len(history)} reused")
    assert again.cached == 0


@pytest.mark.case(16)
def test_a_streamed_turn_is_leased(stack: Stack, conversation: str, seen: Seen) -> None:
    prompt = tokens(500)
    asked = body(prompt, stream=True)
    with stack.http.stream("POST", "/v1/completions", json=asked, headers=named(conversation)) as response:
        assert list(response.iter_lines())[-2:] == ["data: [DONE]", ""]
    stack.leased(conversation)

    again = stack.complete(prompt + tokens(100), conversation)

    seen(f"{again.cached} of the first {len(prompt)} tokens reused")
    assert again.cached == len(prompt) // 128 * 128
