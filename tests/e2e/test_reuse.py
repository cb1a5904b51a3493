"""Which turns reuse decode's KV on real engines, and that the answer is always the one of a cold run."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import Seen
from tests.e2e.stack import Stack, assert_same, counter, tokens

pytestmark = pytest.mark.engine
STRIDE = 128
CLAIMS = "kvlease_connector_claims_total"


@pytest.mark.case(37)
def test_every_later_turn_of_a_growing_history_is_read_from_decode(stack: Stack, conversation: str, seen: Seen) -> None:
    history, held, claims = tokens(400), 0, counter(stack.prefill, CLAIMS)
    for turn in range(4):
        reads = stack.reads()

        said = stack.complete(history, conversation, max_tokens=30)

        assert stack.reads() == reads + (turn > 0)
        assert said.cached == held
        assert_same(said, stack.cold(history, max_tokens=30))
        seen(f"turn {turn + 1}: {said.cached} of {len(history)} cached, {held} were held")
        held = len(history) + len(said.tokens) - 1
        history = history + said.tokens + tokens(150)
    assert counter(stack.prefill, CLAIMS) == claims + 3  # on vLLM's own /metrics


@pytest.mark.parametrize(("edited_at", "reused"), [(10, 0), (450, 3 * STRIDE)], ids=["early", "late"])
def test_an_edited_history_is_reused_up_to_the_edit(
    stack: Stack, conversation: str, edited_at: int, reused: int
) -> None:
    history = tokens(600)
    said = stack.complete(history, conversation)
    edited = [*history[:edited_at], history[edited_at] + 1, *history[edited_at + 1 :], *said.tokens, *tokens(100)]

    again = stack.complete(edited, conversation)

    assert again.cached == reused
    assert_same(again, stack.cold(edited))


@pytest.mark.case(1)
def test_a_regenerated_answer_is_that_of_a_cold_run(stack: Stack, conversation: str, seen: Seen) -> None:
    prompt = tokens(500)
    first = stack.complete(prompt, conversation, max_tokens=140)

    again = stack.complete(prompt, conversation, max_tokens=140)

    assert again.cached == 3 * STRIDE
    apart = assert_same(again, stack.cold(prompt, max_tokens=140))
    assert_same(again, first)
    seen(f"{again.cached} of {len(prompt)} reused, log-probabilities differ by {apart:.1g}")


def test_a_shortened_history_is_that_of_a_cold_run(stack: Stack, conversation: str) -> None:
    history = tokens(700)
    stack.complete(history, conversation)
    shortened = history[:300]

    again = stack.complete(shortened, conversation)

    assert again.cached == 2 * STRIDE
    assert_same(again, stack.cold(shortened))


def test_two_interleaved_conversations_both_reuse_their_own(stack: Stack, conversation: str) -> None:
    other = uuid.uuid4().hex
    histories = {conversation: tokens(400), other: tokens(500)}
    for turn in range(3):
        for name, history in histories.items():
            said = stack.complete(history, name)
            assert bool(said.cached) == bool(turn)
            assert_same(said, stack.cold(history))
            histories[name] = history + said.tokens + tokens(80)
    stack.settle(conversation, other)


def test_a_side_call_of_the_same_conversation_leaves_the_main_thread_its_reuse(stack: Stack, conversation: str) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    side = tokens(400)
    assert_same(stack.complete(side, conversation), stack.cold(side))
    history = history + said.tokens + tokens(50)

    main = stack.complete(history, conversation)

    assert main.cached == 500 + len(said.tokens) - 1
    assert_same(main, stack.cold(history))


@pytest.mark.case(14)
def test_a_short_conversation_is_neither_read_nor_kept(stack: Stack, conversation: str, seen: Seen) -> None:
    prompt = tokens(40)
    stack.complete(prompt, conversation)
    stack.settle()  # nothing was ended: nothing was kept

    cached = stack.complete(prompt + tokens(10), conversation).cached

    seen(f"nothing held, {cached} tokens reused")
    assert cached == 0


def test_a_request_without_a_conversation_is_served_and_nothing_is_kept(stack: Stack) -> None:
    prompt = tokens(400)

    said = stack.complete(prompt)

    assert_same(said, stack.cold(prompt))
    stack.settle()


@pytest.mark.case(4)
def test_turns_of_one_conversation_at_once_are_all_right(stack: Stack, conversation: str, seen: Seen) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    turns = [history + said.tokens + tokens(60 + 40 * i) for i in range(3)]

    with ThreadPoolExecutor(len(turns)) as pool:
        answers = list(pool.map(lambda turn: stack.complete(turn, conversation), turns))

    for turn, given in zip(turns, answers, strict=True):
        assert given.cached >= 3 * STRIDE  # all of the history, unless another of the turns has superseded it
        assert_same(given, stack.cold(turn))
    seen(f"{len(answers)} right, {[given.cached for given in answers]} reused")


@pytest.mark.case(5)
def test_ten_conversations_with_one_request_id_do_not_mix(stack: Stack, seen: Seen) -> None:
    names = [uuid.uuid4().hex for _ in range(10)]
    prompts = [tokens(300) for _ in names]

    def turn(i: int) -> int:
        headers = {"X-Conversation-ID": names[i], "X-Request-Id": "the-same"}
        first = stack.complete(prompts[i], extra_headers=headers)
        history = prompts[i] + first.tokens + tokens(40)
        again = stack.complete(history, extra_headers=headers)
        assert again.cached == 300 + len(first.tokens) - 1
        assert_same(again, stack.cold(history))
        return again.cached

    with ThreadPoolExecutor(5) as pool:
        cached = list(pool.map(turn, range(10)))
    stack.settle(*names)
    seen(f"{len(cached)} right, {sum(map(bool, cached))} reused their own, all released")


@pytest.mark.case(7)
def test_transfer_parameters_of_a_client_are_stripped(stack: Stack, conversation: str, seen: Seen) -> None:
    prompt = tokens(300)
    theirs = {"do_remote_prefill": True, "remote_host": "192.0.2.1", "remote_port": 1, "remote_block_ids": [[1]]}

    said = stack.complete(prompt, conversation, kv_transfer_params=theirs)

    assert_same(said, stack.cold(prompt))
    seen("served, the answer of a cold run")
