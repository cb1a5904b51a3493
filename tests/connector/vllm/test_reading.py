"""Prefill reads what decode holds of the conversation, and computes whatever is not proved, late or lost.

Every step checks that what it computes stands on the right KV (see `memory`).
"""

from collections.abc import Callable

import pytest
from vllm.v1.request import Request, RequestStatus

from kvlease.connector.turn import QUARANTINE, Answer
from tests.connector.vllm.engine import Engine
from tests.connector.vllm.remotes import Remote

Start = Callable[..., Engine]
HISTORY = list(range(300))
QUESTION = list(range(1000, 1050))
PROMPT = HISTORY + QUESTION


def read_blocks(engine: Engine) -> tuple[list[int], list[int]]:
    """Returns our and the owner's blocks of the only read under way."""
    (read,) = engine.workers.reads.values()
    (ours,), (theirs,) = read.local_block_ids, read.remote.block_ids
    return list(ours), list(theirs)


# -- what is read ----------------------------------------------------------------------------------------------------


def test_what_decode_holds_is_read_and_the_rest_computed(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))

    assert engine.step().total_num_scheduled_tokens == 0
    engine.workers.end(request.request_id)
    engine.step()
    assert engine.step().num_scheduled_tokens == {request.request_id: 50}

    assert request.is_finished()
    assert engine.link.outcomes == [("USED", 300)]


@pytest.mark.parametrize("edited", [0, 5, 128, 200, 299])
def test_of_an_edited_history_no_more_is_read_than_is_the_same(start: Start, edited: int) -> None:
    engine = start()
    prompt = [*HISTORY[:edited], 4000, *HISTORY[edited + 1 :], *QUESTION]
    request = engine.prefill(prompt)
    remote = Remote(engine, HISTORY)
    engine.link.answer(remote.answer(engine.link.asked[0]))
    engine.step()

    proved = edited // 128 * 128
    if proved:
        ours, theirs = read_blocks(engine)
        assert theirs == remote.block_ids[: proved // 16]
        assert len(ours) == len(theirs)
        engine.workers.end(request.request_id)
    engine.run()

    assert request.is_finished()
    assert engine.link.outcomes == [("USED", proved) if proved else ("NOT_NEEDED", 0)]


def test_a_history_that_was_shortened_is_read_in_whole_strides(start: Start) -> None:
    engine = start()
    request = engine.prefill(HISTORY[:290])
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    engine.workers.end(request.request_id)
    engine.run()

    assert engine.link.outcomes == [("USED", 256)]


def test_a_prompt_that_is_held_whole_computes_its_last_token_only(start: Start) -> None:
    engine = start()
    request = engine.prefill(HISTORY)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    engine.workers.end(request.request_id)
    engine.step()

    assert engine.step().num_scheduled_tokens == {request.request_id: 1}
    assert engine.link.outcomes == [("USED", 300)]


def test_what_is_in_the_local_prefix_cache_is_not_read(start: Start) -> None:
    engine = start()
    engine.add(HISTORY[:160], max_tokens=1)
    engine.run()
    request = engine.prefill(PROMPT)
    remote = Remote(engine, HISTORY)
    engine.link.answer(remote.answer(engine.link.asked[0]))
    engine.step()

    ours, theirs = read_blocks(engine)
    assert theirs == remote.block_ids
    assert len(ours) == len(remote.block_ids) - 160 // 16
    engine.workers.end(request.request_id)
    engine.run()
    assert engine.link.outcomes == [("USED", 140)]


def test_the_threshold_counts_what_is_left_after_the_local_prefix_cache(start: Start) -> None:
    engine = start(kv_recompute_threshold=64)
    engine.add(HISTORY[:240], max_tokens=1)
    engine.run()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))

    assert engine.step().num_scheduled_tokens == {request.request_id: 110}
    assert engine.link.outcomes == [("NOT_NEEDED", 0)]


def test_without_a_prefix_cache_of_its_own_all_is_read(start: Start) -> None:
    engine = start(caching=False)
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    engine.workers.end(request.request_id)
    engine.run()

    assert engine.link.outcomes == [("USED", 300)]


def test_the_report_tells_where_the_kv_came_from(start: Start) -> None:
    engine = start()
    engine.add(HISTORY[:160], max_tokens=1)
    engine.run()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    engine.workers.end(request.request_id)
    engine.run()

    (grant,) = engine.link.grants
    told = grant.report
    assert (told.prompt_tokens, told.local_tokens, told.reused_tokens, told.computed_tokens) == (350, 160, 140, 50)
    assert told.miss_reason == ""


def test_what_was_read_serves_the_next_request_from_the_prefix_cache(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    engine.workers.end(request.request_id)
    engine.run()

    other = engine.add(PROMPT, max_tokens=1)

    assert engine.step().num_scheduled_tokens == {other.request_id: 350 - 336}


# -- waiting for the control plane -----------------------------------------------------------------------------------


def test_a_request_waits_for_its_answer_and_holds_up_nobody(start: Start) -> None:
    engine = start()
    waiting = engine.prefill(PROMPT)
    other = engine.add(QUESTION, max_tokens=1)

    assert engine.begin().num_scheduled_tokens == {other.request_id: 50}
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.complete()
    assert engine.used == 0  # nothing is allocated for who waits
    engine.step()
    assert waiting.request_id in engine.workers.reads


@pytest.mark.parametrize("asynchronous", [False, True])
def test_vllm_asks_for_who_waits_once_and_once_more_when_there_is_an_answer(
    start: Start, monkeypatch: pytest.MonkeyPatch, *, asynchronous: bool
) -> None:
    engine = start(asynchronous=asynchronous)
    engine.add(QUESTION, max_tokens=50)
    request = engine.prefill(PROMPT)
    asked: list[str] = []  # each time after vLLM looked for the whole prompt in its prefix cache
    ask = engine.leasing.get_num_new_matched_tokens

    def noted(wanted: Request, found: int) -> tuple[int | None, bool]:
        asked.append(wanted.request_id)
        return ask(wanted, found)

    monkeypatch.setattr(engine.leasing, "get_num_new_matched_tokens", noted)
    for _ in range(20):
        engine.step()
    assert asked.count(request.request_id) == 1
    engine.link.answer(Answer(miss="NO_LEASE"))
    engine.run()

    assert asked.count(request.request_id) == 2
    assert request.is_finished()


def test_an_answer_that_vllm_has_not_heard_of_wakes_nobody_else(start: Start) -> None:
    engine = start()
    waiting, other = engine.prefill(PROMPT), engine.prefill([4000, *PROMPT])
    engine.begin()
    engine.link.answer(Answer(miss="NO_LEASE"), engine.link.asked[1])
    engine.complete()

    assert set(engine.step().num_scheduled_tokens) == {other.request_id}
    assert not waiting.is_finished()


def test_when_no_answer_comes_in_time_the_request_is_computed(start: Start) -> None:
    engine = start(kvlease_wait="50ms")
    request = engine.prefill(PROMPT)
    assert engine.begin().total_num_scheduled_tokens == 0

    engine.clock.advance(0.05)
    engine.complete()

    assert engine.step().num_scheduled_tokens == {request.request_id: 350}
    assert not engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    (grant,) = engine.link.grants
    assert grant.report.miss_reason == "WAIT_OVER"


def test_a_miss_is_computed_at_once(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Answer(miss="NO_LEASE"))

    assert engine.step().num_scheduled_tokens == {request.request_id: 350}
    assert engine.link.grants[0].report.miss_reason == "NO_LEASE"


def test_a_full_pool_makes_a_read_wait_not_fail(start: Start) -> None:
    engine = start(blocks=41)
    long = engine.add(range(2000, 2500), max_tokens=3)
    engine.step()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    assert not engine.workers.reads

    while not engine.workers.reads:
        engine.step()
    engine.workers.end(request.request_id)
    engine.run()

    assert long.is_finished()
    assert engine.link.outcomes == [("USED", 300)]


# -- reads that come to nothing --------------------------------------------------------------------------------------


def test_a_failed_read_is_computed_and_not_tried_again(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()

    engine.workers.fail(request.request_id)
    engine.run()

    assert request.status == RequestStatus.FINISHED_LENGTH_CAPPED
    assert not engine.workers.reads
    assert engine.link.outcomes == [("FAILED", 0)]
    (grant,) = engine.link.grants
    assert (grant.report.reused_tokens, grant.report.computed_tokens) == (0, 350)
    assert grant.report.miss_reason == "READ_FAILED"


def test_a_read_that_ended_after_its_claim_is_thrown_away(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    remote = Remote(engine, HISTORY)
    engine.link.answer(remote.answer(engine.link.asked[0], end=engine.clock() + 2.0))
    engine.step()

    engine.clock.advance(2.0)
    remote.spoil()
    engine.workers.end(request.request_id)
    engine.run()

    assert request.is_finished()
    assert engine.link.outcomes == [("LATE", 0)]
    assert engine.link.grants[0].report.miss_reason == "READ_LATE"


def test_nothing_of_a_late_read_reaches_the_prefix_cache(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    remote = Remote(engine, HISTORY)
    engine.link.answer(remote.answer(engine.link.asked[0], end=engine.clock() + 2.0))
    engine.step()
    engine.clock.advance(2.0)
    remote.spoil()
    engine.workers.end(request.request_id)
    engine.step()

    other = engine.add(PROMPT, max_tokens=1)  # before the late one was computed

    scheduled = engine.step()
    assert scheduled.num_scheduled_tokens.get(other.request_id, 350) == 350
    engine.run()
    assert other.is_finished()


def test_a_read_that_hangs_is_given_up_and_its_blocks_are_not_used_for_a_while(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    ours, _ = read_blocks(engine)

    engine.clock.advance(30.0)
    engine.run()

    assert request.is_finished()
    assert engine.link.outcomes == [("FAILED", 0)]
    (grant,) = engine.link.grants
    kept = {block.block_id for block in engine.leasing._retention._kept[grant.lease_id]}
    assert not kept & set(ours)
    assert all(engine.pool.blocks[block_id].ref_cnt == 1 for block_id in ours)
    engine.link.order_free(grant)
    engine.run()
    (engine.clock.now,) = engine.link.looks
    assert engine.run()  # though it is idle
    assert engine.used == 0


@pytest.mark.parametrize("how", ["late", "hung"])
def test_a_request_that_shares_a_prefix_with_a_read_thrown_away_goes_on_undisturbed(start: Start, how: str) -> None:
    engine = start()
    sharing = engine.add(HISTORY[:160], max_tokens=20)
    engine.step()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0], end=engine.clock() + 2.0))
    engine.step()
    into, _ = read_blocks(engine)
    if how == "late":
        engine.clock.advance(2.0)
        engine.workers.end(request.request_id)
    else:
        engine.clock.advance(30.0)

    while not request.is_finished():
        assert engine.step().num_scheduled_tokens.get(sharing.request_id) == 1

    assert engine.link.outcomes == [("LATE" if how == "late" else "FAILED", 0)]
    (grant,) = engine.link.grants
    kept = {block.block_id for block in engine.leasing._retention._kept[grant.lease_id]}
    assert how == "late" or not kept & set(into)


@pytest.mark.parametrize("blocks", [0, 1, 18])
def test_a_handle_with_fewer_blocks_than_its_tokens_need_is_not_read(start: Start, blocks: int) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    remote = Remote(engine, HISTORY)
    engine.link.answer(remote.answer(engine.link.asked[0], groups=[remote.block_ids[:blocks]]))

    engine.run()

    assert request.is_finished()
    assert engine.link.outcomes == [("NOT_NEEDED", 0)]


def test_a_handle_with_more_blocks_than_its_tokens_need_is_cut(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    remote = Remote(engine, HISTORY)
    engine.link.answer(remote.answer(engine.link.asked[0], groups=[[*remote.block_ids, 7, 8]]))
    engine.step()
    engine.workers.end(request.request_id)
    engine.run()

    assert engine.link.outcomes == [("USED", 300)]


@pytest.mark.parametrize("groups", [[], [[1], [2]]])
def test_a_handle_of_another_number_of_groups_is_not_read(start: Start, groups: list[list[int]]) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    answer = Remote(engine, HISTORY).answer(engine.link.asked[0])
    params = {**answer.params, "remote_block_ids": tuple(groups)}
    engine.link.answer(Answer(answer.claim, answer.proved, params))

    engine.run()

    assert request.is_finished()
    assert engine.link.outcomes == [("NOT_NEEDED", 0)]


# -- preemption and clients that leave -------------------------------------------------------------------------------


def test_after_preemption_nothing_is_promised_again(start: Start) -> None:
    engine = start()
    request = engine.alone(PROMPT, max_tokens=30)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    engine.workers.end(request.request_id)
    engine.step()
    engine.step()

    engine.preempt(request)
    engine.run()

    assert (request.num_preemptions, request.num_output_tokens) == (1, 30)
    assert not engine.workers.reads
    assert engine.link.outcomes == [("USED", 300)]


def test_a_client_that_leaves_while_its_prompt_is_read(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()

    engine.abort(request)
    engine.step()
    assert engine.used > 0  # the read may still write into its blocks
    engine.workers.end(request.request_id)
    engine.run()

    assert engine.used == 0
    assert engine.link.outcomes == [("ABORTED", 0)]
    assert engine.link.grants == []


def test_a_client_that_leaves_while_its_read_fails(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    engine.abort(request)

    engine.workers.fail(request.request_id)
    engine.step()

    assert engine.used == 0
    assert engine.link.outcomes == [("ABORTED", 0)]


def test_a_client_that_leaves_while_its_read_is_thrown_away(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0], end=engine.clock() + 2.0))
    engine.step()
    engine.clock.advance(2.0)
    engine.workers.end(request.request_id)
    engine.step()

    engine.abort(request)
    engine.run()

    assert engine.used == 0
    assert engine.link.outcomes == [("LATE", 0)]


def test_a_client_that_leaves_before_its_answer_came(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.step()

    engine.abort(request)
    engine.run()

    assert not engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    assert (engine.used, engine.link.finished) == (0, [])


def test_a_client_that_leaves_between_answer_and_schedule_gives_its_claim_back(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))

    engine.abort(request)
    engine.run()

    assert engine.link.outcomes == [("ABORTED", 0)]


def test_a_hung_read_whose_client_has_left_is_given_up_too(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    engine.abort(request)
    engine.clock.advance(30.0)
    engine.run()
    engine.clock.advance(QUARANTINE + 1.0)
    engine.run()

    assert engine.used == 0
    assert request.request_id not in engine.scheduler.requests
