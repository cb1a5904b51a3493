"""A turn only moves forward."""

import asyncio

import pytest

from kvlease.router.errors import TicketNotFound
from kvlease.router.record import Prefill, Record, State
from kvlease.v1.lease_pb2 import PrefillReport
from tests.router.test_ticket import SAMPLE

REPORT = PrefillReport(prompt_tokens=10)


@pytest.fixture
def record() -> Record:
    return Record(SAMPLE, 0.0, 60.0)


def test_publishing_prefills_the_turn(record: Record) -> None:
    record.publish("l1", REPORT)
    record.publish("l1", REPORT)

    assert (record.state, record.prefill, record.lease_id) == (State.PREFILLED, Prefill.PUBLISHED, "l1")


def test_a_report_that_comes_after_the_answer_is_kept(record: Record) -> None:
    record.complete()
    record.publish("l1", REPORT)

    assert (record.state, record.report) == (State.COMPLETED, REPORT)


def test_nothing_is_published_for_a_turn_or_leg_that_was_cancelled(record: Record) -> None:
    record.fail_prefill()
    with pytest.raises(TicketNotFound):
        record.publish("l1", REPORT)

    record.cancel()
    with pytest.raises(TicketNotFound):
        record.publish("l1", REPORT)


def test_a_leg_that_fails_after_it_was_published_has_failed(record: Record) -> None:
    record.publish("l1", REPORT)
    record.fail_prefill()

    assert (record.prefill, record.report) == (Prefill.FAILED, REPORT)


def test_a_completed_turn_stays_completed(record: Record) -> None:
    record.complete()
    record.complete()

    assert not record.cancel()
    assert (record.state, record.over) == (State.COMPLETED, True)


def test_a_cancelled_turn_cannot_be_completed(record: Record) -> None:
    assert record.cancel()
    assert record.cancel()

    with pytest.raises(TicketNotFound):
        record.complete()
    assert record.prefill is Prefill.FAILED


async def waiting(record: Record) -> asyncio.Task[None]:
    task = asyncio.create_task(record.prefill_settled(60.0))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_whoever_waits_for_prefill_wakes_when_it_is_settled_or_the_turn_is_over(record: Record) -> None:
    for settle in (lambda r: r.publish("l1", None), Record.fail_prefill, Record.complete, Record.cancel):
        record = Record(SAMPLE, 0.0, 60.0)
        task = await waiting(record)
        settle(record)
        await task


async def test_a_wait_for_prefill_ends_by_itself(record: Record) -> None:
    await record.prefill_settled(0.001)

    assert record.prefill is Prefill.PENDING


async def test_nobody_waits_for_what_is_settled(record: Record) -> None:
    record.publish("l1", None)

    await record.prefill_settled(60.0)


@pytest.mark.parametrize(
    ("new", "engine_says", "told"),
    [
        (True, "NO_LEASE", "FIRST_TURN"),
        (True, "UNREACHABLE", "UNREACHABLE"),
        (True, "", ""),
        (False, "NO_LEASE", "NO_LEASE"),
    ],
)
def test_a_first_turn_has_missed_nothing(*, new: bool, engine_says: str, told: str) -> None:
    record = Record(SAMPLE, 0.0, 60.0, new=new)

    record.publish("l1", PrefillReport(prompt_tokens=10, miss_reason=engine_says))

    assert record.report
    assert record.report.miss_reason == told
