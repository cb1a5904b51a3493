"""A decode pool of 64 blocks: idle leases never make anybody wait, and what remains of them is right."""

import os
import statistics
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import Seen
from tests.e2e.conftest import VERSION
from tests.e2e.stack import Stack, assert_same, body, counter, named, running, tokens

pytestmark = pytest.mark.engine
PREEMPTIONS = "vllm:num_preemptions_total"
BLOCKS, BLOCK = 64, 128
TTL = 120.0  # seconds that a lease lives: longer than any request takes on the slowest machine


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    logs = Path(os.environ.get("KVLEASE_TEST_LOGS") or tmp_path_factory.mktemp("logs"))
    decode = {"blocks": BLOCKS, "arguments": ["--max-model-len", str(BLOCKS * BLOCK - BLOCK)]}
    with running(VERSION, logs / f"{VERSION}-small", decode=decode, ttl=TTL) as made:
        yield made


def first_token(stack: Stack, prompt: list[int], conversation: str) -> float:
    """Seconds to the first token."""
    began = time.monotonic()
    asked = body(prompt, stream=True)
    with stack.http.stream("POST", "/v1/completions", json=asked, headers=named(conversation)) as response:
        next(line for line in response.iter_lines() if line.startswith("data:"))
        return time.monotonic() - began


@pytest.mark.case(25)
def test_twelve_retained_conversations_keep_no_new_one_waiting(small: Stack, seen: Seen) -> None:
    preempted = counter(small.decode, PREEMPTIONS)
    first = [uuid.uuid4().hex for _ in range(4)]
    empty = [first_token(small, tokens(3000), name) for name in first]
    histories = {uuid.uuid4().hex: tokens(620) for _ in range(12)}
    for name, history in histories.items():
        histories[name] = history + small.complete(history, name).tokens
    newcomers = [uuid.uuid4().hex for _ in range(4)]

    waits = [first_token(small, tokens(3000), name) for name in newcomers]

    ratio = statistics.median(waits) / statistics.median(empty)
    seen(f"time to the first token with a pool full of leases: {ratio:.2f} of that of an emptier one")
    assert max(waits) < small.ttl  # nobody waited for a lease to expire
    assert counter(small.decode, PREEMPTIONS) == preempted
    for name, history in list(histories.items())[-3:]:
        turn = history + tokens(60)
        assert_same(small.complete(turn, name), small.cold(turn))
    small.settle(*first, *histories, *newcomers)


def test_running_requests_that_preempt_one_another_are_right(small: Stack) -> None:
    preempted = counter(small.decode, PREEMPTIONS)
    prompts = {uuid.uuid4().hex: tokens(900) for _ in range(7)}

    with ThreadPoolExecutor(len(prompts)) as pool:
        answers = list(pool.map(lambda name: small.complete(prompts[name], name, max_tokens=600), prompts))

    assert counter(small.decode, PREEMPTIONS) > preempted
    small.settle(*prompts)
    for prompt, given in zip(prompts.values(), answers, strict=True):
        assert_same(given, small.cold(prompt, max_tokens=600))


def test_a_conversation_larger_than_the_budget_is_served_without_a_lease(small: Stack) -> None:
    name, history = uuid.uuid4().hex, tokens(BLOCKS * BLOCK * 3 // 4)
    said = small.complete(history, name)
    small.settle()  # nothing is kept

    turn = history + said.tokens + tokens(20)
    assert_same(small.complete(turn, name), small.cold(turn))
    small.settle(name)
