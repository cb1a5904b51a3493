"""Routing turns, with and without the registry."""

import asyncio
from typing import Any

import pytest

from kvlease.router.dispatched import Dispatched
from kvlease.router.engine import Engine
from kvlease.router.errors import ModelNotFound, NoEngine, RegistryUnreachable, RequestIdTaken
from kvlease.router.holdings import Holdings
from kvlease.router.overload import Overload
from kvlease.router.placement import Placer
from kvlease.router.record import Decision, Record
from kvlease.router.registry import Branch
from kvlease.router.roster import Roster
from kvlease.router.router import Ask, Router
from kvlease.router.ticket import TicketKey
from kvlease.router.tickets import Tickets
from tests.router.engines import MODEL, engine, key, picker, prefill
from tests.router.registries import FakeRegistry
from tests.support.clock import FakeClock

FLEET = (prefill("p0"), prefill("p1"), engine("d0"), engine("d1"))
KEY = TicketKey(b"k" * 32)
DOWN = RegistryUnreachable("down")


class Bench:
    """A router and everything around it."""

    def __init__(self, *engines: Engine) -> None:
        self.clock = FakeClock()
        self.registry = FakeRegistry(*engines)
        self.dispatched = Dispatched(self.clock)
        self.roster = Roster(self.registry, stale=600.0, updated=self.dispatched.heard, clock=self.clock)
        self.tickets = Tickets(capacity=100, forgot=lambda r: self.dispatched.ended(r.terms), clock=self.clock)
        self.router = Router(
            holdings=Holdings(self.registry, capacity=100),
            roster=self.roster,
            placer=Placer(overload=Overload(), unseen=self.dispatched.count, picker=picker()),
            tickets=self.tickets,
            dispatched=self.dispatched,
            key=KEY,
            lifetime=3600.0,
            clock=self.clock,
        )

    async def route(self, request_id: str = "r", conversation_id: str = "c", **changes: Any) -> tuple[Record, Decision]:
        ask = Ask(
            tenant="a",
            request_id=request_id,
            conversation_id=conversation_id,
            model=MODEL,
            prompt_tokens=0,
            excluded=frozenset(),
            wait=0.05,
        )
        return await self.router.route(ask._replace(**changes))


@pytest.fixture
async def bench() -> Bench:
    bench = Bench(*FLEET)
    await bench.roster.refresh()
    bench.registry.calls.clear()
    return bench


async def test_a_turn_costs_one_call_of_the_registry(bench: Bench) -> None:
    await bench.route()

    assert bench.registry.calls == ["branches"]


async def test_a_turn_without_a_conversation_costs_none(bench: Bench) -> None:
    record, _ = await bench.route(conversation_id="")

    assert bench.registry.calls == []
    assert (record.terms.conversation_id, record.terms.prefill is None) == ("", False)


async def test_the_ticket_says_what_was_decided(bench: Bench) -> None:
    bench.registry.held["a", "c"] = [Branch(key("d1"), 500, 3)]

    record, decision = await bench.route()

    assert KEY.open(decision.ticket) == record.terms
    assert (record.terms.decode, record.terms.base_generation, decision.leased_tokens) == (key("d1"), 3, 500)


async def test_a_turn_counts_as_load_at_once(bench: Bench) -> None:
    record, _ = await bench.route()

    assert bench.dispatched.count(record.terms.decode) == 1


async def test_a_retry_gets_the_same_ticket_and_adds_no_load(bench: Bench) -> None:
    first, _ = await bench.route()
    again, _ = await bench.route()

    assert again is first
    assert bench.dispatched.count(first.terms.decode) == 1


async def test_a_retry_that_overtakes_its_first_try_gets_the_same_ticket(bench: Bench) -> None:
    bench.registry.frozen = asyncio.Event()
    tries = [asyncio.create_task(bench.route()) for _ in range(2)]
    await asyncio.sleep(0)
    bench.registry.frozen.set()
    (one, _), (other, _) = await asyncio.gather(*tries)

    assert one is other
    assert len(bench.tickets) == 1


async def test_a_retry_that_excludes_an_engine_of_its_ticket_is_routed_anew(bench: Bench) -> None:
    first, _ = await bench.route()

    second, _ = await bench.route(excluded=frozenset({first.terms.decode}))
    third, _ = await bench.route(excluded=frozenset({first.terms.decode}))

    assert second.terms.decode != first.terms.decode
    assert third is second


async def test_a_retry_after_its_ticket_was_cancelled_is_routed_anew(bench: Bench) -> None:
    first, _ = await bench.route()
    first.cancel()

    second, _ = await bench.route()

    assert second is not first


@pytest.mark.parametrize("change", [{"conversation_id": "other"}, {"model": "other"}])
async def test_a_request_id_is_not_used_for_two_turns(bench: Bench, change: dict[str, str]) -> None:
    await bench.route()

    with pytest.raises(RequestIdTaken):
        await bench.route(**change)


async def test_without_the_registry_decode_works_alone_where_the_conversation_was(bench: Bench) -> None:
    bench.registry.held["a", "c"] = [Branch(key("d1"), 500, 3)]
    await bench.route("r1")
    bench.registry.error = DOWN

    for turn in range(5):
        record, decision = await bench.route(f"r{turn + 2}")
        assert (record.terms.prefill, record.terms.decode, decision.leased_tokens) == (None, key("d1"), 0)


async def test_without_the_registry_turns_without_a_conversation_are_decoded_alone_too(bench: Bench) -> None:
    bench.registry.error = DOWN
    await bench.roster.refresh()

    record, _ = await bench.route(conversation_id="")

    assert record.terms.prefill is None


async def test_when_the_registry_is_back_so_is_prefill(bench: Bench) -> None:
    bench.registry.error = DOWN
    await bench.route("r1")
    bench.registry.error = None

    record, _ = await bench.route("r2")

    assert record.terms.prefill is not None


async def test_a_router_that_never_saw_an_engine_says_so() -> None:
    bench = Bench()
    bench.registry.error = DOWN

    with pytest.raises(RegistryUnreachable):
        await bench.route()


async def test_a_routers_first_turn_is_served_in_full() -> None:
    bench = Bench(*FLEET)

    record, _ = await bench.route(conversation_id="")

    assert record.terms.prefill is not None


async def test_engines_last_seen_too_long_ago_are_not_routed_to(bench: Bench) -> None:
    bench.registry.error = DOWN
    bench.clock.advance(600.0)

    with pytest.raises(RegistryUnreachable):
        await bench.route()


async def test_an_engine_that_has_just_come_is_found_at_once() -> None:
    bench = Bench(prefill("p0"))
    await bench.roster.refresh()
    bench.registry.fleet.append(engine("d0"))

    record, _ = await bench.route()

    assert record.terms.decode == key("d0")


@pytest.mark.parametrize(("change", "error"), [({"model": "other"}, ModelNotFound), ({}, NoEngine)])
async def test_what_cannot_be_served_is_refused_after_one_more_look(
    change: dict[str, str], error: type[Exception]
) -> None:
    bench = Bench(prefill("p0"))
    await bench.roster.refresh()
    bench.registry.calls.clear()

    with pytest.raises(error):
        await bench.route(conversation_id="", **change)
    assert bench.registry.calls == ["engines"]


async def test_a_refused_request_may_be_tried_again_under_its_id() -> None:
    bench = Bench(prefill("p0"))
    with pytest.raises(NoEngine):
        await bench.route()
    bench.registry.fleet.append(engine("d0"))

    assert await bench.route()
