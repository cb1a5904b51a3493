"""An engine in which nothing can be done sleeps a little in its step, until something comes; no other engine does."""

import queue
import threading
from collections.abc import Callable

import pytest

from kvlease.connector.scheduler import PAUSE
from kvlease.connector.turn import Answer
from kvlease.connector.wakeup import Inputs
from tests.connector.vllm.engine import Engine
from tests.connector.vllm.remotes import Remote

Start = Callable[..., Engine]
HISTORY = list(range(300))
PROMPT = HISTORY + list(range(1000, 1050))
QUESTION = list(range(3000, 3050))


def answered(engine: Engine, answer: Answer) -> None:
    """What the link does."""
    engine.link.answer(answer)
    engine.link.wake()


@pytest.mark.parametrize(("leg", "kept"), [("decode", PROMPT), ("prefill", HISTORY)])
def test_who_waits_reads_in_the_step_in_which_the_answer_comes(start: Start, leg: str, kept: list[int]) -> None:
    engine = start(kvlease_wait="1s")
    request = getattr(engine, leg)(PROMPT)
    answer = Remote(engine, kept).answer(engine.link.asked[0])
    engine.input_queue.pauses.meanwhile.append(lambda: answered(engine, answer))

    engine.step()

    assert request.request_id in engine.workers.reads
    assert engine.input_queue.pauses.seen == [PAUSE]


def test_without_an_answer_the_step_goes_on_and_the_next_one_pauses_again(start: Start) -> None:
    engine = start()
    engine.decode(PROMPT)

    for steps in range(1, 4):
        engine.step()
        assert engine.input_queue.pauses.seen == [PAUSE] * steps


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_a_step_with_work_is_never_drawn_out(start: Start, leg: str, *, asynchronous: bool) -> None:
    engine = start(asynchronous=asynchronous)
    other = engine.add(QUESTION, max_tokens=20)
    engine.step()
    getattr(engine, leg)(PROMPT)

    while not other.is_finished():
        assert not engine.input_queue.pauses.seen
        engine.step()

    engine.step()
    engine.step()
    assert engine.input_queue.pauses.seen  # now there is none


def test_a_request_that_is_there_but_not_scheduled_yet_is_work(start: Start) -> None:
    engine = start(blocks=41)
    engine.decode(PROMPT)
    engine.add(range(2000, 2500))  # does not fit beside what is allocated for the other

    for _ in range(3):
        assert not engine.step().num_scheduled_tokens

    assert not engine.input_queue.pauses.seen


def test_a_request_that_comes_ends_the_pause_at_once(start: Start) -> None:
    engine = start()
    engine.decode(PROMPT)
    engine.input_queue.put("a request")

    engine.step()

    assert not engine.input_queue.pauses.seen


def test_reads_are_looked_after_without_a_pause(start: Start) -> None:
    engine = start()
    engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    for _ in range(3):
        engine.step()
    assert engine.workers.reads

    engine.decode(PROMPT)
    engine.step()

    assert not engine.input_queue.pauses.seen


def test_no_pause_outlasts_the_patience_of_who_waits(start: Start) -> None:
    engine = start(kvlease_wait="50ms")
    engine.prefill(PROMPT)
    pauses = engine.input_queue.pauses
    engine.clock.advance(0.044)
    pauses.meanwhile.append(lambda: engine.clock.advance(0.006))

    scheduled = engine.step()

    assert pauses.seen == [pytest.approx(0.006)]
    assert scheduled.num_scheduled_tokens  # computed at once, and the report says why


def test_ranks_that_step_together_do_not_pause(start: Start) -> None:
    engine = start(lockstep=True)
    engine.decode(PROMPT)
    engine.prefill(PROMPT)

    engine.step()

    assert not engine.input_queue.pauses.seen


def test_an_engine_without_inputs_does_not_pause(start: Start) -> None:
    engine = start(offline=True)
    request = engine.decode(PROMPT)

    engine.step()

    assert not request.is_finished()


def test_a_request_that_has_left_is_not_waited_for(start: Start) -> None:
    engine = start()
    parked, asleep = engine.decode(PROMPT), engine.prefill(PROMPT)
    engine.step()
    engine.abort(asleep)
    engine.step()
    before = len(engine.input_queue.pauses.seen)
    engine.abort(parked)
    engine.run()

    assert before == 3  # prefill's question, its step, and the step of who is still parked
    assert len(engine.input_queue.pauses.seen) == before
    assert engine.used == 0


def test_whatever_comes_wakes_who_sleeps_on_the_inputs() -> None:
    inputs: queue.Queue[object] = queue.Queue()
    waker = threading.Thread(target=Inputs(inputs, "wake up").wake)
    waker.start()

    Inputs(inputs, "wake up").wait(600.0)

    waker.join()
    assert inputs.get_nowait() == "wake up"
