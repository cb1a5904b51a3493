"""Asynchronous scheduling: a step is scheduled, and its metadata sent, before the last one's result is taken in."""

from collections.abc import Callable

import pytest

from kvlease.connector import body
from kvlease.connector.turn import Answer
from tests.connector.vllm.engine import Engine
from tests.connector.vllm.memory import trace
from tests.connector.vllm.remotes import Remote

Start = Callable[..., Engine]
HISTORY = list(range(300))
PROMPT = HISTORY + list(range(1000, 1050))


def test_a_lease_covers_what_was_computed_and_said_though_a_step_is_in_flight(start: Start) -> None:
    engine = start(asynchronous=True)
    request = engine.alone(PROMPT, max_tokens=20)
    engine.link.answer(Answer(miss="NO_LEASE"))

    engine.run()

    (grant,) = engine.link.grants
    assert request.num_output_tokens == 20
    assert grant.handle.token_count == 350 + 20 - 1
    (held,) = body.decode(grant.handle.body)["remote_block_ids"]
    assert engine.memory.right(held, trace(request.all_token_ids), grant.handle.token_count)


def test_a_client_that_leaves_while_a_step_is_in_flight_leaves_no_more_than_is_known_to_be_computed(
    start: Start,
) -> None:
    engine = start(asynchronous=True)
    request = engine.alone(PROMPT, max_tokens=20)
    engine.link.answer(Answer(miss="NO_LEASE"))
    engine.begin()
    engine.begin()
    engine.complete()
    engine.begin()

    engine.abort(request)

    (grant,) = engine.link.grants
    assert grant.handle.token_count == 350
    engine.link.order_free(grant)
    engine.run()
    assert engine.used == 0


def test_a_late_read_is_thrown_away(start: Start) -> None:
    engine = start(asynchronous=True)
    request = engine.prefill(PROMPT)
    remote = Remote(engine, HISTORY)
    engine.link.answer(remote.answer(engine.link.asked[0], end=engine.clock() + 2.0))
    engine.begin()
    engine.clock.advance(2.0)
    remote.spoil()
    engine.workers.end(request.request_id)
    engine.run()

    assert request.is_finished()
    assert engine.link.outcomes == [("LATE", 0)]


@pytest.mark.parametrize("how", ["well", "badly"])
@pytest.mark.parametrize("stays", [True, False])
def test_a_read_that_ends_just_as_it_is_given_up_is_told_once(start: Start, how: str, *, stays: bool) -> None:
    engine = start(asynchronous=True)
    request = engine.prefill(PROMPT)
    remote = Remote(engine, HISTORY)
    engine.link.answer(remote.answer(engine.link.asked[0], end=engine.clock() + 2.0))
    engine.begin()
    engine.complete()
    if how == "well":
        remote.spoil()
        engine.workers.end(request.request_id)
    else:
        engine.workers.fail(request.request_id)
    engine.begin()  # its report is under way
    engine.clock.advance(30.0)

    engine.begin()
    if not stays:
        engine.abort(request)
    engine.run()

    assert request.is_finished()
    assert request.request_id not in engine.scheduler.requests
    assert engine.link.outcomes == [("FAILED", 0)]
    assert len(engine.link.grants) == stays
