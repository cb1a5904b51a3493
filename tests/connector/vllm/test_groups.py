"""Models of several KV-cache groups, full attention and a sliding window: all of a lease is read, or nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from kvlease.connector import body
from kvlease.connector.turn import Answer
from kvlease.connector.versions import REPORTS_FAILED_REQUESTS
from tests.connector.vllm.engine import Engine
from tests.connector.vllm.remotes import Remote

Start = Callable[..., Engine]
HISTORY = list(range(320))
PROMPT = HISTORY + list(range(1000, 1050))
WINDOW = 64
pytestmark = pytest.mark.skipif(not REPORTS_FAILED_REQUESTS, reason="this vLLM cannot report their failed reads")


def ask(engine: Engine, prompt: list[int], held: list[int]) -> Any:
    """A prefill leg, answered with a claim on the KV of *held*: all of its full attention, the end of its window."""
    request = engine.prefill(prompt)
    remote = Remote(engine, held)
    groups = [remote.block_ids, remote.block_ids[-(WINDOW // 16 + 1) :]]
    engine.link.answer(remote.answer(engine.link.asked[-1], groups=groups))
    engine.step()
    return request


def test_a_lease_that_the_prompt_begins_with_is_read_whole(start: Start) -> None:
    engine = start(windows=[WINDOW])
    request = ask(engine, PROMPT, HISTORY)

    read = engine.workers.reads[request.request_id]
    assert [len(ids) for ids in read.remote.block_ids] == [20, 5]
    engine.workers.end(request.request_id)
    engine.run()
    assert engine.link.outcomes == [("USED", 320)]


@pytest.mark.parametrize("edited", [0, 200, 319])
def test_of_an_edited_history_nothing_is_read(start: Start, edited: int) -> None:
    engine = start(windows=[WINDOW])
    request = ask(engine, [*HISTORY[:edited], 4000, *PROMPT[edited + 1 :]], HISTORY)
    engine.run()

    assert request.is_finished()
    assert engine.link.outcomes == [("NOT_NEEDED", 0)]


def test_a_lease_that_is_longer_than_the_prompt_is_not_read(start: Start) -> None:
    engine = start(windows=[WINDOW])
    ask(engine, HISTORY[:300], HISTORY)
    engine.run()

    assert engine.link.outcomes == [("NOT_NEEDED", 0)]


@pytest.mark.parametrize("how", ["failed", "late"])
def test_a_read_that_comes_to_nothing_is_computed(start: Start, how: str) -> None:
    engine = start(windows=[WINDOW])
    request = engine.prefill(PROMPT)
    remote = Remote(engine, HISTORY)
    groups = [remote.block_ids, remote.block_ids[-5:]]
    engine.link.answer(remote.answer(engine.link.asked[0], end=engine.clock() + 2.0, groups=groups))
    engine.step()
    if how == "failed":
        engine.workers.fail(request.request_id)
    else:
        engine.clock.advance(2.0)
        remote.spoil()
        engine.workers.end(request.request_id)
    engine.run()

    assert request.is_finished()
    assert engine.link.outcomes == [(how.upper(), 0)]


def test_a_handle_of_one_group_is_not_read(start: Start) -> None:
    engine = start(windows=[WINDOW])
    engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.run()

    assert engine.link.outcomes == [("NOT_NEEDED", 0)]


def test_what_decode_keeps_is_in_all_groups_and_all_of_it_is_freed(start: Start) -> None:
    engine = start(windows=[WINDOW])
    engine.alone(PROMPT)
    engine.link.answer(Answer(miss="NO_LEASE"))
    engine.run()

    (grant,) = engine.link.grants
    full, window = body.decode(grant.handle.body)["remote_block_ids"]
    assert (grant.handle.token_count, len(full)) == (373, 24)
    assert len(window) == WINDOW // 16 + 1
    assert engine.used == grant.handle.block_count
    engine.link.order_free(grant)
    engine.run()
    assert engine.used == 0
