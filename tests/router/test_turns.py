"""What becomes of a ticket."""

import asyncio

import pytest

from kvlease.router.dispatched import Dispatched
from kvlease.router.engine import EngineKey
from kvlease.router.errors import EngineMismatch, RegistryUnreachable, TicketForged, TicketNotFound
from kvlease.router.record import Prefill, State
from kvlease.router.registry import RegistryRefused
from kvlease.router.ticket import Terms, TicketKey
from kvlease.router.tickets import Tickets
from kvlease.router.turns import Turns
from kvlease.v1.lease_pb2 import STOP_REASON_ANSWERED, PrefillReport
from tests.router.registries import FakeRegistry
from tests.support.clock import FakeClock

KEY = TicketKey(b"k" * 32)
P, D = EngineKey("p0", "1"), EngineKey("d0", "1")
TERMS = Terms(ticket_id="t", tenant="a", conversation_id="c", prefill=P, decode=D, base_generation=0, lifetime=60.0)
TICKET = KEY.seal(TERMS)
ALONE = KEY.seal(TERMS._replace(prefill=None))
WAIT = 0.05
REPORT = PrefillReport(prompt_tokens=10, reused_tokens=8)


class Bench:
    """The turns and everything around them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.registry = FakeRegistry()
        self.dispatched = Dispatched(self.clock)
        self.tickets = Tickets(capacity=100, forgot=lambda r: self.dispatched.ended(r.terms), clock=self.clock)
        self.turns = Turns(
            tickets=self.tickets, dispatched=self.dispatched, key=KEY, registry=self.registry, later=(0.0, 0.0)
        )
        self.dispatched.routed(TERMS)

    async def complete(self, tenant: str = "a") -> PrefillReport | None:
        return await self.turns.complete(TICKET, tenant, STOP_REASON_ANSWERED, WAIT)

    @property
    def load(self) -> tuple[int, int]:
        return self.dispatched.count(P), self.dispatched.count(D)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_an_engine_learns_its_ticket(bench: Bench) -> None:
    for engine in (P, D):
        record = await bench.turns.resolve(TICKET, engine, 0.0)
        assert (record.terms, record.prefill) == (TERMS, Prefill.PENDING)


@pytest.mark.parametrize("engine", [EngineKey("d1", "1"), EngineKey("d0", "2")], ids=["other", "restarted"])
async def test_a_ticket_is_only_for_the_engines_that_it_names(bench: Bench, engine: EngineKey) -> None:
    with pytest.raises(EngineMismatch):
        await bench.turns.resolve(TICKET, engine, 0.0)
    with pytest.raises(EngineMismatch):
        bench.turns.publish(TICKET, engine, "l1", None)


async def test_a_forged_ticket_moves_nothing(bench: Bench) -> None:
    forged = TicketKey(b"x" * 32).seal(TERMS)

    for call in (
        bench.turns.resolve(forged, D, 0.0),
        bench.turns.complete(forged, "a", STOP_REASON_ANSWERED, WAIT),
        bench.turns.cancel(forged, "a", WAIT),
        bench.turns.cancel_prefill(forged, "a", WAIT),
    ):
        with pytest.raises(TicketForged):
            await call
    assert (bench.registry.calls, len(bench.tickets)) == ([], 0)


async def test_only_prefill_publishes(bench: Bench) -> None:
    for ticket in (TICKET, ALONE):
        with pytest.raises(EngineMismatch):
            bench.turns.publish(ticket, D, "l1", None)


async def test_decode_waits_for_prefill_to_publish(bench: Bench) -> None:
    waiting = asyncio.create_task(bench.turns.resolve(TICKET, D, 60.0))
    await asyncio.sleep(0)
    bench.turns.publish(TICKET, P, "l1", REPORT)

    record = await waiting
    assert (record.prefill, record.lease_id, record.report) == (Prefill.PUBLISHED, "l1", REPORT)


async def test_decode_waits_no_longer_when_the_prefill_leg_is_cancelled(bench: Bench) -> None:
    waiting = asyncio.create_task(bench.turns.resolve(TICKET, D, 60.0))
    await asyncio.sleep(0)
    await bench.turns.cancel_prefill(TICKET, "a", WAIT)

    assert (await waiting).prefill is Prefill.FAILED
    assert bench.registry.ended == [("t", "PREFILL_FAILED")]


async def test_a_stopping_router_lets_nobody_wait(bench: Bench) -> None:
    waiting = asyncio.create_task(bench.turns.resolve(TICKET, D, 60.0))
    await asyncio.sleep(0)
    bench.tickets.release()

    assert (await waiting).prefill is Prefill.PENDING


async def test_an_end_is_told_to_the_registry(bench: Bench) -> None:
    await bench.complete()
    await bench.complete()

    assert bench.registry.ended == [("t", "COMPLETED")] * 2


async def test_an_end_that_the_registry_did_not_hear_is_told_again(bench: Bench) -> None:
    bench.registry.error = RegistryUnreachable("frozen")
    assert await bench.complete() is None
    assert bench.registry.ended == []

    bench.registry.error = None

    for _ in range(20):
        await asyncio.sleep(0)
    assert bench.registry.ended == [("t", "COMPLETED")]


async def test_an_end_that_is_refused_or_never_heard_is_not_told_for_ever(bench: Bench) -> None:
    for error, calls in ((RegistryRefused("no"), 1), (RegistryUnreachable("gone"), 3)):
        bench.registry.error, bench.registry.calls = error, []
        await bench.complete()
        for _ in range(20):
            await asyncio.sleep(0)

        assert bench.registry.calls == ["end_turn"] * calls


async def test_a_cancelled_turn_is_over(bench: Bench) -> None:
    await bench.turns.cancel(TICKET, "a", WAIT)
    await bench.turns.cancel(TICKET, "a", WAIT)

    assert bench.registry.ended == [("t", "CANCELLED")] * 2
    with pytest.raises(TicketNotFound):
        await bench.turns.resolve(TICKET, D, 0.0)
    with pytest.raises(TicketNotFound):
        await bench.complete()


async def test_cancelling_what_was_answered_changes_nothing(bench: Bench) -> None:
    bench.turns.publish(TICKET, P, "l1", REPORT)
    await bench.complete()
    await bench.turns.cancel(TICKET, "a", WAIT)
    await bench.turns.cancel_prefill(TICKET, "a", WAIT)

    assert bench.registry.ended == [("t", "COMPLETED")]
    assert bench.turns.known("t", "a").prefill is Prefill.PUBLISHED


async def test_the_answer_says_what_prefill_reported_here(bench: Bench) -> None:
    bench.turns.publish(TICKET, P, "l1", REPORT)
    bench.registry.report = PrefillReport(prompt_tokens=1)

    assert await bench.complete() == REPORT


async def test_or_what_the_registry_knows_of_it(bench: Bench) -> None:
    bench.registry.report = REPORT

    assert await bench.complete() == REPORT
    assert bench.turns.known("t", "a").report == REPORT


@pytest.mark.parametrize("error", [RegistryUnreachable("down"), RegistryRefused("no")])
async def test_a_turn_ends_without_the_registry(bench: Bench, error: Exception) -> None:
    bench.turns.publish(TICKET, P, "l1", REPORT)
    bench.registry.error = error

    assert await bench.complete() == REPORT
    assert bench.turns.known("t", "a").state is State.COMPLETED


async def test_that_prefill_will_not_come_must_be_told_to_the_registry(bench: Bench) -> None:
    bench.registry.error = RegistryUnreachable("down")
    with pytest.raises(RegistryUnreachable):
        await bench.turns.cancel_prefill(TICKET, "a", WAIT)
    bench.registry.error = None

    await bench.turns.cancel_prefill(TICKET, "a", WAIT)

    assert bench.registry.ended == [("t", "PREFILL_FAILED")]


async def test_a_registry_that_refuses_to_hear_of_prefill_is_not_told_again(bench: Bench) -> None:
    bench.registry.error = RegistryRefused("no")

    await bench.turns.cancel_prefill(TICKET, "a", WAIT)

    assert bench.turns.known("t", "a").prefill is Prefill.FAILED


async def test_a_turn_counts_as_load_until_its_end(bench: Bench) -> None:
    bench.turns.publish(TICKET, P, "l1", REPORT)
    assert bench.load == (0, 1)

    await bench.complete()
    assert bench.load == (0, 0)


async def test_a_cancelled_turn_is_no_load(bench: Bench) -> None:
    await bench.turns.cancel_prefill(TICKET, "a", WAIT)
    assert bench.load == (0, 1)

    await bench.turns.cancel(TICKET, "a", WAIT)
    assert bench.load == (0, 0)


async def test_another_tenants_ticket_is_not_found(bench: Bench) -> None:
    await bench.turns.resolve(TICKET, D, 0.0)

    for call in (
        bench.complete("b"),
        bench.turns.cancel(TICKET, "b", WAIT),
        bench.turns.cancel_prefill(TICKET, "b", WAIT),
    ):
        with pytest.raises(TicketNotFound):
            await call
    with pytest.raises(TicketNotFound):
        bench.turns.known("t", "b")
    assert bench.turns.recent("b", "", 10) == []


async def test_recent_turns_are_listed_up_to_a_limit(bench: Bench) -> None:
    for name in ("t1", "t2", "t3"):
        await bench.turns.resolve(KEY.seal(TERMS._replace(ticket_id=name)), D, 0.0)

    assert [r.terms.ticket_id for r in bench.turns.recent("a", "", 2)] == ["t3", "t2"]
