import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from kvlease.client import aio, sync, types
from kvlease.client.aio import Client
from kvlease.client.errors import ClientClosed, DeadlineExceeded, Draining, LeaseNotFound, NoEngine, Unavailable
from kvlease.client.testing import FakeRegistry, FakeRouter


@pytest.fixture
async def client(registry: FakeRegistry, router: FakeRouter) -> AsyncIterator[Client]:
    async with Client(registry=registry.address, router=router.address) as client:
        yield client


def public(kind: type) -> dict[str, Callable[..., Any]]:
    return {name: method for name, method in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_both_clients_have_the_same_methods() -> None:
    threads, tasks = public(sync.Client), public(aio.Client)

    assert threads.keys() == tasks.keys()
    for name, method in threads.items():
        assert inspect.signature(method).parameters == inspect.signature(tasks[name]).parameters, name
        assert inspect.getdoc(method), name


def test_both_clients_are_made_alike() -> None:
    assert inspect.signature(sync.Client) == inspect.signature(aio.Client)


async def test_a_conversation_goes_on_where_its_lease_is(client: Client) -> None:
    first = await client.route("model", conversation_id="c", prompt_tokens=100)
    resolved = await client.resolve(first.ticket, first.decode.engine)
    await client.complete(first.ticket, stop_reason=types.StopReason.TOOLS_CALLED)

    second = await client.route("model", conversation_id="c", prompt_tokens=150)
    cost = await client.complete(second.ticket)

    assert resolved.leg is types.Leg.DECODE
    assert first.decode == second.decode
    assert cost is not None
    assert (cost.computed_tokens, cost.reused_tokens) == (50, 100)


async def test_every_reading_call_answers(client: Client, registry: FakeRegistry) -> None:
    lease_id = registry.grant("c")
    turn = await client.route("model")
    await client.cancel(turn.ticket)

    assert [engine.ref.engine_id for engine in await client.list_engines()] == ["decode", "prefill"]
    assert (await client.get_lease(lease_id)).conversation_id == "c"
    assert [lease.lease_id for lease in await client.list_leases()] == [lease_id]
    assert (await client.get_ticket(turn.ticket_id)).state is types.TicketState.CANCELLED
    assert [ticket.terms.ticket_id for ticket in await client.list_tickets()] == [turn.ticket_id]
    assert [renewal.status for renewal in await client.renew("c", "none")] == ["renewed", "not_found"]
    assert await client.end("c") == 1


async def test_leases_are_listed_over_all_pages(
    client: Client, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvlease.client.testing.registry.PAGE", 2)
    granted = [registry.grant(str(number)) for number in range(5)]

    assert [lease.lease_id for lease in await client.list_leases()] == granted


async def test_a_watch_tells_what_exists_then_what_happens(client: Client, registry: FakeRegistry) -> None:
    registry.grant("a")

    async with aclosing(client.watch_leases()) as events:
        seen = [(await anext(events)).kind, (await anext(events)).kind]
        registry.grant("b")
        granted = await anext(events)

    assert seen == [types.LeaseEventKind.EXISTS, types.LeaseEventKind.SYNCED]
    assert granted.kind is types.LeaseEventKind.GRANTED


async def test_refusals_are_typed(client: Client) -> None:
    turn = await client.route("model")

    with pytest.raises(NoEngine):
        await client.route("model", exclude=[turn.decode.engine])
    with pytest.raises(LeaseNotFound):
        await client.get_lease("none")


async def test_a_server_that_is_stopping_is_asked_again(client: Client, registry: FakeRegistry) -> None:
    registry.fail_next(Draining("stopping"), Draining("stopping"))

    assert len(await client.list_engines()) == 2


async def test_nobody_and_a_frozen_server_are_told_apart(client: Client, registry: FakeRegistry) -> None:
    registry.freeze()
    with pytest.raises(DeadlineExceeded):
        await client.list_engines(timeout=0.1)

    registry.stop()
    with pytest.raises(Unavailable):
        await client.list_engines(timeout=0.3)


async def test_a_call_in_flight_is_cut_by_close(client: Client, registry: FakeRegistry) -> None:
    registry.freeze()
    pending = asyncio.create_task(client.list_engines())
    await asyncio.to_thread(registry.wait_for, "ListEngines", 1)

    await client.close()

    with pytest.raises(ClientClosed):
        await pending
    with pytest.raises(ClientClosed):
        await client.list_engines()


async def test_a_cancelled_task_is_cancelled(client: Client, registry: FakeRegistry) -> None:
    registry.freeze()
    pending = asyncio.create_task(client.list_engines())
    await asyncio.to_thread(registry.wait_for, "ListEngines", 1)

    pending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await pending
