"""Asynchronous scheduling: a step is scheduled, and its metadata sent, before the last one's result is taken in."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from vllm.v1.request import Request

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


# -- whatever happens while a step is in flight ----------------------------------------------------------------------


def halves(engine: Engine, request: Request, tokens: list[int], how: str) -> Iterator[None]:
    """Lives a request from half step to half step: after each, one more step has been begun or completed."""
    remote, read = Remote(engine, tokens), request.request_id
    turn = engine.link.asked[-1]
    engine.begin()
    yield
    engine.begin()
    yield
    engine.link.answer(remote.answer(turn, end=engine.clock() + 2.0), turn)
    while engine.busy:
        engine.complete()
        yield
        if read in engine.workers.reads:
            if how == "late":
                engine.clock.advance(2.0)
                remote.spoil()
            engine.workers.fail(read) if how == "badly" else engine.workers.end(read)
        if engine.scheduler.has_requests():
            engine.begin()
        yield


def leave(engine: Engine, request: Request) -> None:
    if not request.is_finished():
        engine.abort(request)


def preempt(engine: Engine, request: Request) -> None:
    if request in engine.scheduler.running:
        engine.preempt(request)


@pytest.mark.parametrize("how", ["well", "badly", "late"])
@pytest.mark.parametrize("role", ["prefill", "decode"])
@pytest.mark.parametrize("happens", [leave, preempt])
def test_a_request_leaves_nothing_whenever_it_is_aborted_or_preempted(
    start: Start, role: str, how: str, happens: Callable[[Engine, Request], None]
) -> None:
    engine = start(asynchronous=True)
    for moment in range(24):
        prompt = [4000 - moment, *PROMPT]  # nothing is found in the local prefix cache
        request = getattr(engine, role)(prompt, max_tokens=3)
        life = halves(engine, request, prompt if role == "decode" else prompt[:300], how)

        for _ in itertools.islice(life, moment):
            pass
        happens(engine, request)
        for _ in life:
            pass

        assert request.is_finished()
        engine.link.order_free(*engine.link.grants)
        engine.run()
        assert (engine.used, engine.scheduler.requests, engine.leasing._turns) == (0, {}, {})
        assert len(engine.link.finished) <= moment + 1
