"""What a finished request leaves behind stays by reference until its lease is over, and not a block longer."""

from collections.abc import Callable
from typing import Any

import pytest
from vllm.v1.engine import EngineCoreRequestType

from kvlease.connector import body
from kvlease.connector.turn import Answer
from kvlease.v1.lease_pb2 import LeaseKind, StopReason
from tests.connector.requests import params, terms
from tests.connector.vllm.engine import OTHER, Engine
from tests.connector.vllm.links import HOLD
from tests.connector.vllm.memory import BLOCK, trace

Start = Callable[..., Engine]
PROMPT = list(range(350))


def answered(engine: Engine, prompt: list[int] | None = None, **how: Any) -> Any:
    """A turn that decode has answered by itself."""
    request = engine.alone(prompt or PROMPT, **how)
    engine.link.answer(Answer(miss="NO_LEASE"))
    engine.run()
    assert request.is_finished()
    return request


def test_decodes_blocks_outlive_the_request(start: Start) -> None:
    engine = start()
    request = answered(engine)

    (grant,) = engine.link.grants
    assert (grant.kind, grant.handle.token_count) == (LeaseKind.LEASE_KIND_DECODE, 353)
    assert engine.used == grant.handle.block_count == 23
    assert request.request_id not in engine.scheduler.requests  # nothing is delayed in vLLM


def test_the_blocks_of_a_lease_hold_what_it_says_whatever_else_is_served(start: Start) -> None:
    engine = start(blocks=61)
    request = answered(engine)
    (grant,) = engine.link.grants
    for i in range(5):
        engine.add(range(3000 + i, 3400 + i))
        engine.run()

    (held,) = body.decode(grant.handle.body)["remote_block_ids"]
    assert engine.memory.right(held, trace(request.all_token_ids), grant.handle.token_count)


def test_blocks_are_free_once_ordered_also_on_an_idle_engine(start: Start) -> None:
    engine = start()
    answered(engine)
    assert engine.run() == 0  # it sleeps while it keeps them

    engine.link.order_free(*engine.link.grants)

    assert engine.input_queue.get_nowait() == (EngineCoreRequestType.WAKEUP, None)
    assert engine.run() == 1
    assert engine.used == 0
    engine.link.heartbeat()
    assert engine.link.freed == [engine.link.grants[0].lease_id]


def test_blocks_that_two_turns_share_are_free_with_the_last(start: Start) -> None:
    engine = start()
    first = answered(engine)
    answered(engine, [*first.all_token_ids, *range(1000, 1030)])
    one, other = engine.link.grants
    together = engine.used
    assert together < one.handle.block_count + other.handle.block_count
    assert engine.link.load().leased_blocks == together

    engine.link.order_free(one)
    engine.run()
    assert engine.used == other.handle.block_count
    engine.link.order_free(other)
    engine.run()
    assert engine.used == 0


def test_a_block_that_a_running_request_uses_too_stays_with_it(start: Start) -> None:
    engine = start()
    first = answered(engine)
    running = engine.add(first.all_token_ids, max_tokens=20)
    engine.step()

    engine.link.order_free(*engine.link.grants)
    engine.run()

    assert running.num_output_tokens == 20
    assert engine.used == 0


def test_prefills_blocks_are_kept_until_decode_has_read_them(start: Start) -> None:
    engine = start()
    request = engine.prefill(PROMPT)
    engine.link.answer(Answer(miss="NO_LEASE"))
    engine.run()

    (grant,) = engine.link.grants
    assert (grant.kind, grant.handle.token_count) == (LeaseKind.LEASE_KIND_PREFILL, 350)
    assert request.is_finished()
    assert engine.used == grant.handle.block_count == 22
    assert len(engine.link.published) == 1
    engine.link.order_free(grant)
    engine.run()
    assert engine.used == 0


def test_an_answer_that_ends_on_a_stop_string_is_kept(start: Start) -> None:
    """The front end finds the string and aborts the request: for the engine nobody knows that it was answered."""
    engine = start()
    request = engine.alone(PROMPT, max_tokens=50)
    engine.link.answer(Answer(miss="NO_LEASE"))
    for _ in range(5):
        engine.step()

    engine.abort(request)

    (grant,) = engine.link.grants
    assert grant.handle.token_count == 350 + 5 - 1


def test_an_answer_that_was_cut_short_says_so(start: Start) -> None:
    engine = start()
    answered(engine)

    assert engine.link.grants[0].stop_reason == StopReason.STOP_REASON_LENGTH


def test_each_child_of_one_request_is_leased_and_all_are_freed(start: Start) -> None:
    """n = 3."""
    engine = start()
    for _ in range(3):
        engine.alone(PROMPT)
        engine.link.answer(Answer(miss="NO_LEASE"))
    engine.run()

    assert len({grant.lease_id for grant in engine.link.grants}) == 3
    engine.link.order_free(*engine.link.grants)
    engine.run()
    assert engine.used == 0


def test_what_vllm_hands_back_to_the_client_is_nothing(start: Start) -> None:
    engine = start()
    request = engine.alone(PROMPT, max_tokens=1)
    engine.link.answer(Answer(miss="NO_LEASE"))
    engine.run()

    assert engine.connector.request_finished(request, []) == (False, None)


@pytest.mark.parametrize("when", ["before it was scheduled", "before it was answered", "in mid prompt"])
def test_a_request_that_goes_without_an_answer_leaves_nothing(start: Start, when: str) -> None:
    engine = start(batch=100)
    request = engine.alone(PROMPT)
    if when != "before it was scheduled":
        engine.step()
    if when == "in mid prompt":
        engine.link.answer(Answer(miss="NO_LEASE"))
        engine.step()

    engine.abort(request)
    engine.run()

    assert (engine.link.grants, engine.used) == ([], 0)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"bidirectional_kv_xfer": False}, {}),
        ({}, {"conversation": ""}),
        ({"kv_recompute_threshold": 400}, {}),
    ],
    ids=["one way", "no conversation", "below threshold"],
)
def test_what_nobody_would_read_is_not_kept(start: Start, how: dict[str, Any], said: dict[str, Any]) -> None:
    engine = start(**how)
    engine.add(PROMPT, params(terms(prefill=OTHER, decode=engine.ref, **said)))
    engine.link.answer(Answer(miss="PREFILL_FAILED"))
    engine.run()

    assert (engine.link.grants, engine.used) == ([], 0)


def test_a_ticket_of_another_engine_is_served_without_leases(start: Start) -> None:
    engine = start()
    request = engine.add(PROMPT, params(terms(prefill=OTHER, decode=OTHER)))
    engine.run()

    assert request.num_output_tokens == 4
    assert (engine.link.asked, engine.link.grants, engine.used) == ([], [], 0)


# -- the registry says nothing ---------------------------------------------------------------------------------------


def test_without_a_registry_nothing_new_is_kept(start: Start) -> None:
    engine = start()
    engine.link.connected = False

    answered(engine)

    assert (engine.link.grants, engine.used) == ([], 0)


def test_when_the_registry_is_silent_for_the_hold_the_blocks_are_freed(start: Start) -> None:
    engine = start()
    answered(engine)
    engine.link.connected = False

    engine.clock.advance(HOLD)
    assert engine.run() == 0
    engine.clock.advance(0.1)
    assert engine.run() == 1

    assert engine.used == 0


# -- memory is short -------------------------------------------------------------------------------------------------


def test_a_request_without_room_makes_the_engine_ask_for_space_at_once(start: Start) -> None:
    engine = start(blocks=41)
    answered(engine)
    waiting = engine.add(range(1000, 1400))
    assert engine.step().total_num_scheduled_tokens == 0
    assert engine.link.reclaimed == [10]  # 2 for the watermark, 25 for the request, 17 of them free

    engine.link.order_free(*engine.link.grants)
    engine.step()
    engine.step()

    assert waiting.num_output_tokens == 1


def test_space_is_asked_for_before_it_is_needed(start: Start) -> None:
    engine = start(blocks=41, kvlease_free_watermark=0.5)

    answered(engine)

    assert engine.link.reclaimed == [20 - 17]


def test_with_room_nothing_is_asked_for(start: Start) -> None:
    engine = start()
    for _ in range(2):
        answered(engine)

    assert engine.link.reclaimed == []


def test_load_is_what_runs_waits_and_is_kept(start: Start) -> None:
    engine = start()
    answered(engine)
    engine.add(range(1000, 1100))
    engine.step()
    engine.prefill(range(2000, 2100))
    engine.step()

    load = engine.link.load()

    assert (load.running, load.waiting) == (1, 1)
    assert (load.leased_blocks, load.free_blocks) == (23, 100 - 23 - 7)


# -- engines of another kind, and KV that is to be discarded ---------------------------------------------------------


def test_an_engine_that_nobody_can_wake_goes_on_while_it_keeps_blocks(start: Start) -> None:
    engine = start(offline=True)
    engine.alone(PROMPT)
    engine.link.answer(Answer(miss="NO_LEASE"))
    for _ in range(10):
        engine.step()
    assert engine.busy

    engine.link.order_free(*engine.link.grants)
    engine.run()

    assert engine.used == 0


def test_kv_without_leases_may_be_discarded(start: Start) -> None:
    engine = start()

    assert engine.connector.reset_cache()
    assert engine.link.released == 0


def test_leased_kv_is_given_back_before_it_is_discarded(start: Start) -> None:
    engine = start()
    answered(engine)

    assert not engine.connector.reset_cache()
    assert engine.link.released == 1
    engine.run()
    assert engine.used == 0
    assert engine.connector.reset_cache()
    assert engine.scheduler.reset_prefix_cache()


def test_blocks_lie_in_order_whatever_was_served_before(start: Start) -> None:
    engine = start(blocks=61)
    for first in (3000, 5000, 7000):  # not leased: freed from their ends
        engine.add(range(first, first + 400))
        engine.run()
    answered(engine)

    (grant,) = engine.link.grants
    (held,) = body.decode(grant.handle.body)["remote_block_ids"]
    prompt = held[:-1]  # the answer's block came later
    assert prompt == sorted(prompt)


def test_what_is_let_go_loses_its_last_tokens_first(start: Start) -> None:
    engine = start(blocks=61)
    answered(engine)
    engine.link.order_free(*engine.link.grants)
    engine.run()
    engine.add(range(3000, 3800))  # takes some of them
    engine.run()

    again = engine.add(PROMPT)

    computed = engine.step().num_scheduled_tokens[again.request_id]
    assert len(PROMPT) % BLOCK < computed < len(PROMPT)
