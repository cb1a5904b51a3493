"""What vLLM's scheduler does with turns, on real engines: answers are those of a cold run, and no block stays held."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from kvlease.local import model
from tests.conftest import Seen
from tests.e2e.stack import READS, Served, Stack, assert_same, counter, tokens

pytestmark = pytest.mark.engine


PREEMPTIONS = "vllm:num_preemptions_total"


def discard(engine: Served) -> bool:
    """Whether the engine has discarded its KV."""
    return bool(httpx.post(f"{engine.url}/reset_prefix_cache?reset_external=true", timeout=60).json()["success"])


def preempt(engine: Served) -> None:
    """Takes their blocks away from all requests that run; vLLM fails to discard what leases keep, and says so."""
    httpx.post(f"{engine.url}/reset_prefix_cache?reset_running_requests=true", timeout=60)


@pytest.mark.parametrize("which", ["prefill", "decode"])
def test_a_turn_that_is_preempted_after_its_history_was_read_is_right(
    stack: Stack, conversation: str, which: str, seen: Seen
) -> None:
    history = tokens(1500)
    said = stack.complete(history, conversation)
    stack.leased(conversation)
    history = history + said.tokens + tokens(5000)
    engine: Served = getattr(stack, which)
    preempted, reads = counter(engine, PREEMPTIONS), counter(engine, READS)

    with ThreadPoolExecutor() as pool:
        going = pool.submit(stack.complete, history, conversation, max_tokens=200)
        for _ in range(12):  # it counts only once the request says something: more than one hits it
            preempt(engine)
            time.sleep(0.05)
        given = going.result()

    assert counter(engine, PREEMPTIONS) > preempted
    assert counter(engine, READS) == reads + 1
    apart = assert_same(given, stack.cold(history, max_tokens=200))
    seen(f"{which} preempted {counter(engine, PREEMPTIONS) - preempted:.0f} times, {apart:.1g} from a cold run")


def test_decode_that_is_sent_a_turn_long_before_prefill_waits_for_it_and_reads(
    stack: Stack, conversation: str, seen: Seen
) -> None:
    prompt, reads = tokens(1500), counter(stack.decode, READS)
    turn = stack.client.route(model.NAME, conversation_id=conversation, prompt_tokens=len(prompt))
    with ThreadPoolExecutor() as pool:
        early = pool.submit(stack.leg, stack.decode, turn.ticket, prompt)
        time.sleep(2.0)
        assert not early.done()
        stack.leg(stack.prefill, turn.ticket, prompt, max_tokens=1)

        said = early.result()

    stack.client.complete(turn.ticket)
    assert counter(stack.decode, READS) == reads + 1
    assert_same(said, stack.cold(prompt))
    seen("decode waited 2 s for prefill to begin, and read from it")


def test_four_branches_of_one_conversation_are_all_gone_on_with(stack: Stack, conversation: str) -> None:
    root = tokens(500)
    said = stack.complete(root, conversation)
    branches = [root + said.tokens + tokens(150 + 40 * i) for i in range(4)]
    answers = [stack.complete(branch, conversation) for branch in branches]
    stack.leased(conversation, 4)

    for branch, given in zip(branches, answers, strict=True):
        turn = branch + given.tokens + tokens(60)
        again = stack.complete(turn, conversation)
        assert again.cached == len(branch) + len(given.tokens) - 1
        assert_same(again, stack.cold(turn))


def test_prefills_cache_may_be_discarded_at_any_time_and_decodes_once_its_leases_are_given_back(
    stack: Stack, conversation: str, seen: Seen
) -> None:
    """What vLLM does before sleep and new weights; a CPU has no sleep mode."""
    history = tokens(500)
    said = stack.complete(history, conversation)
    stack.leased(conversation)
    assert not discard(stack.decode)  # the leases are being given back
    given_back = stack.settle()
    assert all(discard(engine) for engine in stack.engines)
    history = history + said.tokens + tokens(60)

    again = stack.complete(history, conversation)

    assert again.cached == 0
    assert_same(again, stack.cold(history))
    seen(f"refused with leases held, all free after {given_back:.1f} s, then discarded")
