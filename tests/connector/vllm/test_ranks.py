"""Tensor parallelism: each rank reads its part, and what vLLM puts together of their reports is judged."""

from collections.abc import Callable
from typing import Any

import pytest

from kvlease.connector.turn import Answer
from tests.connector.vllm.engine import Engine
from tests.connector.vllm.remotes import Remote
from tests.connector.vllm.workers import Ranks, Workers

Start = Callable[..., Engine]
HISTORY = list(range(300))
PROMPT = HISTORY + list(range(1000, 1050))


@pytest.fixture
def engine(start: Start) -> Engine:
    made = start()
    made.workers = Ranks(made.memory)  # type: ignore[assignment]
    return made


def reading(engine: Engine) -> tuple[Any, Remote, Workers, Workers]:
    """A request that both ranks read for, under a claim of two seconds."""
    request = engine.prefill(PROMPT)
    remote = Remote(engine, HISTORY)
    engine.link.answer(remote.answer(engine.link.asked[0], end=engine.clock() + 2.0))
    engine.step()
    one, other = engine.workers.ranks  # type: ignore[attr-defined]
    return request, remote, one, other


def rest(engine: Engine) -> None:
    engine.run()
    assert engine.workers.together._recv_remaining_count == {}  # type: ignore[attr-defined]


def test_a_read_is_used_once_both_ranks_have_ended(engine: Engine) -> None:
    request, _, one, other = reading(engine)
    one.end(request.request_id)
    engine.step()
    assert engine.link.outcomes == []
    other.end(request.request_id)
    rest(engine)

    assert request.is_finished()
    assert engine.link.outcomes == [("USED", 300)]


def test_a_read_that_one_rank_ends_too_late_is_late(engine: Engine) -> None:
    request, remote, one, other = reading(engine)
    one.end(request.request_id)
    engine.step()
    engine.clock.advance(2.0)
    remote.spoil()
    other.end(request.request_id)
    rest(engine)

    assert request.is_finished()
    assert engine.link.outcomes == [("LATE", 0)]


@pytest.mark.parametrize("first", ["the one that fails", "the one that does not"])
def test_a_read_that_fails_on_one_rank_has_failed(engine: Engine, first: str) -> None:
    request, remote, one, other = reading(engine)
    remote.spoil()
    if first == "the one that fails":
        one.fail(request.request_id)
        engine.step()
        other.end(request.request_id)
    else:
        other.end(request.request_id)
        engine.step()
        one.fail(request.request_id)
    rest(engine)

    assert request.is_finished()
    assert engine.link.outcomes == [("FAILED", 0)]
    assert engine.link.grants[0].report.reused_tokens == 0


def test_a_read_that_hangs_on_one_rank_is_given_up_on_both(engine: Engine) -> None:
    request, remote, one, _ = reading(engine)
    remote.spoil()
    one.end(request.request_id)
    engine.step()
    engine.clock.advance(30.0)
    rest(engine)

    assert request.is_finished()
    assert engine.link.outcomes == [("FAILED", 0)]


def test_a_parked_request_is_ended_on_both_ranks(engine: Engine) -> None:
    request = engine.decode(PROMPT)
    engine.step()
    engine.link.answer(Answer(miss="PREFILL_FAILED"))
    rest(engine)

    assert request.num_output_tokens == 4


def test_a_parked_request_whose_client_leaves_is_ended_on_both_ranks(engine: Engine) -> None:
    request = engine.decode(PROMPT)
    engine.step()
    engine.abort(request)
    rest(engine)

    assert engine.used == 0
