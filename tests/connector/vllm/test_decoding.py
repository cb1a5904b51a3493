"""Decode is sent the request at the same time as prefill: it is parked with its blocks until prefill's KV is there."""

from collections.abc import Callable
from typing import Any

import pytest
from vllm.v1.request import RequestStatus

from kvlease.connector.turn import Answer
from tests.connector.vllm.engine import Engine
from tests.connector.vllm.remotes import Remote

Start = Callable[..., Engine]
PROMPT = list(range(350))


def parked(engine: Engine) -> Any:
    """A request that waits for prefill."""
    request = engine.decode(PROMPT)
    engine.step()
    assert request.status == RequestStatus.WAITING_FOR_REMOTE_KVS
    assert not engine.workers.reads
    return request


def test_a_parked_request_reads_once_prefill_is_done(start: Start) -> None:
    engine = start()
    request = parked(engine)
    engine.link.answer(Remote(engine, PROMPT).answer(engine.link.asked[0]))
    engine.step()

    engine.workers.end(request.request_id)
    engine.run()

    assert request.num_output_tokens == 4
    assert engine.link.outcomes == [("USED", 350)]


def test_prefill_that_was_there_first_is_read_at_once(start: Start) -> None:
    engine = start()
    request = engine.decode(PROMPT)
    engine.link.answer(Remote(engine, PROMPT).answer(engine.link.asked[0]))
    engine.step()

    assert request.request_id in engine.workers.reads


def test_others_go_on_while_one_is_parked(start: Start) -> None:
    engine = start()
    parked(engine)
    other = engine.add(range(1000, 1100))

    for _ in range(4):
        engine.step()

    assert other.is_finished()


@pytest.mark.parametrize("miss", ["PREFILL_FAILED", "NO_SESSION", "UNREACHABLE"])
def test_when_prefill_will_not_come_decode_computes(start: Start, miss: str) -> None:
    engine = start()
    request = parked(engine)

    engine.link.answer(Answer(miss=miss))
    engine.run()

    assert request.num_output_tokens == 4
    assert engine.link.finished == []


def test_prefill_that_has_failed_already_is_not_waited_for(start: Start) -> None:
    engine = start()
    request = engine.decode(PROMPT)
    engine.link.answer(Answer(miss="PREFILL_FAILED"))

    assert engine.step().num_scheduled_tokens == {request.request_id: 350}


def test_prefills_kv_of_other_tokens_is_not_read(start: Start) -> None:
    engine = start()
    request = parked(engine)
    engine.link.answer(Remote(engine, [*PROMPT[:200], 4000, *PROMPT[201:]]).answer(engine.link.asked[0]))

    engine.run()

    assert request.num_output_tokens == 4
    assert engine.link.outcomes == [("NOT_NEEDED", 0)]


@pytest.mark.parametrize("how", ["failed", "late", "hung"])
def test_a_read_that_comes_to_nothing_is_computed(start: Start, how: str) -> None:
    engine = start()
    request = parked(engine)
    remote = Remote(engine, PROMPT)
    engine.link.answer(remote.answer(engine.link.asked[0], end=engine.clock() + 2.0))
    engine.step()
    match how:
        case "failed":
            engine.workers.fail(request.request_id)
        case "late":
            engine.clock.advance(2.0)
            remote.spoil()
            engine.workers.end(request.request_id)
        case "hung":
            engine.clock.advance(30.0)
    engine.run()

    assert request.num_output_tokens == 4
    assert engine.link.outcomes == [("LATE" if how == "late" else "FAILED", 0)]
    assert not engine.workers.reads


def test_what_is_in_the_local_prefix_cache_is_not_read_again(start: Start) -> None:
    engine = start()
    engine.add(PROMPT[:160], max_tokens=1)
    engine.run()
    request = parked(engine)
    remote = Remote(engine, PROMPT)
    engine.link.answer(remote.answer(engine.link.asked[0]))
    engine.step()

    read = engine.workers.reads[request.request_id]
    assert (len(read.local_block_ids[0]), len(read.remote.block_ids[0])) == (12, 22)
    engine.workers.end(request.request_id)
    engine.run()
    assert engine.link.outcomes == [("USED", 190)]


def test_the_siblings_of_one_request_are_served_whatever_the_first_one_reads(start: Start) -> None:
    """n = 3: each child has a claim of its own, so the first one's end frees nothing under the others."""
    engine = start()
    children = [engine.decode(PROMPT) for _ in range(3)]
    engine.step()
    remote = Remote(engine, PROMPT)
    for turn in engine.link.asked:
        engine.link.answer(remote.answer(turn), turn)
    engine.step()

    for request_id in list(engine.workers.reads):
        engine.workers.end(request_id)
        engine.step()
    engine.run()

    assert all(child.num_output_tokens == 4 for child in children)
    assert engine.link.outcomes == [("USED", 350)] * 3


# -- clients that leave ----------------------------------------------------------------------------------------------


def test_a_client_that_leaves_while_its_request_is_parked(start: Start) -> None:
    engine = start()
    request = parked(engine)

    engine.abort(request)
    engine.run()

    assert engine.used == 0
    assert not engine.link.answer(Remote(engine, PROMPT).answer(engine.link.asked[0]))


def test_a_client_that_leaves_as_the_answer_comes(start: Start) -> None:
    engine = start()
    request = parked(engine)
    engine.link.answer(Remote(engine, PROMPT).answer(engine.link.asked[0]))

    engine.abort(request)
    engine.run()

    assert engine.used == 0
    assert engine.link.outcomes == [("ABORTED", 0)]
    assert not engine.workers.reads


def test_a_client_that_leaves_while_decode_reads(start: Start) -> None:
    engine = start()
    request = parked(engine)
    engine.link.answer(Remote(engine, PROMPT).answer(engine.link.asked[0]))
    engine.step()

    engine.abort(request)
    engine.step()
    assert engine.used > 0
    engine.workers.end(request.request_id)
    engine.run()

    assert engine.used == 0
    assert engine.link.outcomes == [("ABORTED", 0)]


def test_a_client_that_leaves_after_its_parked_request_was_given_up(start: Start) -> None:
    engine = start()
    request = parked(engine)
    engine.link.answer(Answer(miss="PREFILL_FAILED"))
    engine.step()

    engine.abort(request)
    engine.run()

    assert engine.used == 0


def test_a_client_that_leaves_in_mid_answer_keeps_what_it_has_for_the_next_turn(start: Start) -> None:
    engine = start()
    request = engine.decode(PROMPT, max_tokens=50)
    engine.link.answer(Answer(miss="PREFILL_FAILED"))
    for _ in range(10):
        engine.step()

    engine.abort(request)
    engine.run()

    (grant,) = engine.link.grants
    assert grant.handle.token_count == 350 + request.num_output_tokens - 1
    engine.link.order_free(grant)
    engine.run()
    assert engine.used == 0


# -- preemption ------------------------------------------------------------------------------------------------------


def test_a_preempted_decode_computes_its_tokens_again(start: Start) -> None:
    engine = start(caching=False)
    request = parked(engine)
    engine.link.answer(Remote(engine, PROMPT).answer(engine.link.asked[0]))
    engine.step()
    engine.workers.end(request.request_id)
    engine.step()
    engine.step()

    engine.preempt(request)
    engine.run()

    assert request.num_output_tokens == 4
    assert not engine.workers.reads
    assert engine.link.outcomes == [("USED", 350)]


def test_a_preempted_request_whose_client_leaves_keeps_nothing(start: Start) -> None:
    engine = start(caching=False)
    request = engine.decode(PROMPT, max_tokens=50)
    engine.link.answer(Answer(miss="PREFILL_FAILED"))
    for _ in range(5):
        engine.step()

    engine.preempt(request)
    engine.abort(request)
    engine.run()

    assert engine.link.grants == []
    assert engine.used == 0


def test_a_request_that_leaves_while_it_computes_its_tokens_again_keeps_no_more_than_it_has(start: Start) -> None:
    engine = start(caching=False, batch=150)
    request = engine.decode(PROMPT, max_tokens=50)
    engine.link.answer(Answer(miss="PREFILL_FAILED"))
    for _ in range(8):
        engine.step()
    engine.preempt(request)
    engine.step()

    engine.abort(request)

    (grant,) = engine.link.grants
    assert (grant.handle.token_count, grant.handle.block_count) == (150, 10)
