"""The router over gRPC, in front of a registry over gRPC."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from google.protobuf.message import Message

from kvlease.client import errors
from kvlease.client.engine import EngineRouterClient
from kvlease.router.engine import EngineKey
from kvlease.rpc import Server
from kvlease.v1 import lease_pb2, router_pb2
from tests.router.engines import key
from tests.router.registry_server import SETTINGS, Routed, routed

REPORT = lease_pb2.PrefillReport(prompt_tokens=100, reused_tokens=90, computed_tokens=10)


def ref(engine: EngineKey) -> lease_pb2.EngineRef:
    return lease_pb2.EngineRef(**engine._asdict())


async def route(
    at: EngineRouterClient, request_id: str = "r", conversation_id: str = "c", model: str = "m", tenant: str = ""
) -> router_pb2.RouteResponse:
    request = router_pb2.RouteRequest(request_id=request_id, conversation_id=conversation_id, model=model)
    return await at.route(request, tenant=tenant)


def resolve(
    at: EngineRouterClient, ticket: str, engine: lease_pb2.EngineRef, wait: float = 0.0
) -> Awaitable[router_pb2.ResolveTicketResponse]:
    request = router_pb2.ResolveTicketRequest(ticket=ticket, engine=engine)
    request.wait.FromTimedelta(timedelta(seconds=wait))
    return at.resolve_ticket(request)


async def test_a_turn_from_its_route_to_its_end() -> None:
    async with routed() as to:
        to.registry.grant("c", key("d1"), 500)
        turn = await route(to.client)
        assert (turn.mode, turn.leased_tokens) == (router_pb2.ROUTE_MODE_PREFILL_DECODE, 500)
        assert (turn.prefill.http_url, turn.decode.http_url) == ("http://p0:8000", "http://d1:8000")

        prefill = await resolve(to.client, turn.ticket, turn.prefill.engine)
        assert (prefill.leg, prefill.prefill_state) == (router_pb2.LEG_PREFILL, router_pb2.PREFILL_STATE_PENDING)
        waiting = asyncio.ensure_future(resolve(to.client, turn.ticket, turn.decode.engine, wait=30.0))
        await to.client.publish_prefill(
            router_pb2.PublishPrefillRequest(
                ticket=turn.ticket, engine=turn.prefill.engine, lease_id="l1", report=REPORT
            )
        )
        decode = await waiting
        assert (decode.leg, decode.prefill_lease_id) == (router_pb2.LEG_DECODE, "l1")
        assert decode.terms.conversation.conversation_id == "c"

        done = await to.client.complete_ticket(
            router_pb2.CompleteTicketRequest(ticket=turn.ticket, stop_reason=lease_pb2.STOP_REASON_ANSWERED)
        )
        assert done.report == REPORT
        (told,) = to.registry.ended
        assert (told.ticket_id, told.decode.engine_id, told.stop_reason) == (turn.ticket_id, "d1", 1)


async def test_what_is_known_of_a_ticket() -> None:
    async with routed() as to:
        turn = await route(to.client)
        answer = await to.client.get_ticket(router_pb2.GetTicketRequest(ticket_id=turn.ticket_id))
        listed = await to.client.list_tickets(router_pb2.ListTicketsRequest(conversation_id="c"))

    ticket = answer.ticket
    assert (ticket.state, ticket.model) == (router_pb2.TICKET_STATE_ROUTED, "m")
    assert ticket.decision.startswith("decode d")
    assert [t.terms.ticket_id for t in listed.tickets] == [turn.ticket_id]


async def test_tickets_are_seen_by_their_tenant_alone() -> None:
    async with routed() as to:
        turn = await route(to.client, tenant="a")

        assert not (await to.client.list_tickets(router_pb2.ListTicketsRequest(), tenant="b")).tickets
        with pytest.raises(errors.TicketNotFound):
            await to.client.get_ticket(router_pb2.GetTicketRequest(ticket_id=turn.ticket_id), tenant="b")
        with pytest.raises(errors.TicketNotFound):
            await to.client.cancel_ticket(router_pb2.CancelTicketRequest(ticket=turn.ticket), tenant="b")


async def test_a_conversation_of_another_tenant_is_not_followed() -> None:
    async with routed() as to:
        to.registry.grant("c", key("d1"), 500, tenant="a")

        assert (await route(to.client, "r1", tenant="a")).leased_tokens == 500
        assert (await route(to.client, "r2", tenant="b")).leased_tokens == 0


async def test_any_router_with_the_same_key_serves_a_ticket() -> None:
    async with routed() as here, routed() as there:
        turn = await route(here.client)

        assert (await resolve(there.client, turn.ticket, turn.decode.engine)).leg == router_pb2.LEG_DECODE
        there.registry.report = REPORT
        done = await there.client.complete_ticket(router_pb2.CompleteTicketRequest(ticket=turn.ticket))
        assert done.report == REPORT


async def test_twenty_conversations_without_an_id_are_spread_over_the_engines() -> None:
    async with routed() as to:
        turns = [await route(to.client, f"r{i}", conversation_id="") for i in range(20)]

    assert Counter(turn.decode.engine.engine_id for turn in turns) == {"d0": 10, "d1": 10}


REFUSALS: list[tuple[type[errors.KvleaseError], Callable[[Routed, router_pb2.RouteResponse], Awaitable[Message]]]] = [
    (errors.ModelNotFound, lambda to, _: route(to.client, "r2", model="other")),
    (errors.IdTaken, lambda to, _: route(to.client, "r", conversation_id="other")),
    (errors.Malformed, lambda to, _: route(to.client, "")),
    (errors.Malformed, lambda to, _: route(to.client, "r2", model="")),
    (errors.Malformed, lambda to, _: route(to.client, "r2", conversation_id="nul\0")),
    (errors.Malformed, lambda to, _: route(to.client, "r2", conversation_id="é" * 129)),
    (errors.TicketForged, lambda to, turn: resolve(to.client, turn.ticket + "x", turn.decode.engine)),
    (errors.IncarnationMismatch, lambda to, turn: resolve(to.client, turn.ticket, ref(EngineKey("d0", "old")))),
    (errors.Malformed, lambda to, turn: resolve(to.client, turn.ticket, lease_pb2.EngineRef())),
    (errors.Malformed, lambda to, turn: resolve(to.client, turn.ticket, turn.decode.engine, wait=61.0)),
    (errors.Malformed, lambda to, turn: resolve(to.client, turn.ticket, turn.decode.engine, wait=-1.0)),
    (errors.TicketNotFound, lambda to, _: to.client.get_ticket(router_pb2.GetTicketRequest(ticket_id="unknown"))),
    (
        errors.Malformed,
        lambda to, turn: to.client.complete_ticket(
            router_pb2.CompleteTicketRequest(ticket=turn.ticket, stop_reason=99)  # type: ignore[arg-type]
        ),
    ),
    (
        errors.Malformed,
        lambda to, turn: to.client.publish_prefill(
            router_pb2.PublishPrefillRequest(ticket=turn.ticket, engine=turn.prefill.engine)
        ),
    ),
]


async def test_refusals_have_their_types() -> None:
    async with routed() as to:
        turn = await route(to.client)
        for error, call in REFUSALS:
            with pytest.raises(error):
                await call(to, turn)


async def test_no_decode_engine_is_no_engine_to_the_caller() -> None:
    async with routed() as to:
        for status in to.registry.engines:
            status.draining = status.engine.ref.engine_id != "p0"
        with pytest.raises(errors.NoEngine):
            await route(to.client)


async def test_a_frozen_registry_is_waited_for_only_so_long() -> None:
    async with routed() as to:
        await route(to.client, "r0")
        to.registry.frozen = asyncio.Event()
        for turn in range(5):
            answer = await route(to.client, f"r{turn + 1}")
            assert answer.mode == router_pb2.ROUTE_MODE_DECODE_ONLY
        to.registry.frozen.set()


async def test_the_registry_gets_only_part_of_a_callers_time() -> None:
    async with routed() as to:
        await route(to.client, "r0")
        to.registry.frozen = asyncio.Event()
        request = router_pb2.RouteRequest(request_id="r1", conversation_id="c", model="m")

        answer = await to.client.route(request, timeout=SETTINGS.wait)

        assert answer.mode == router_pb2.ROUTE_MODE_DECODE_ONLY
        to.registry.frozen.set()


async def test_without_the_registry_a_conversation_stays_where_it_was_and_its_turns_end() -> None:
    async with routed() as to:
        before = await route(to.client, "r0")
        await to.registry_server.drain(0.0)

        turn = await route(to.client, "r1")
        assert turn.mode == router_pb2.ROUTE_MODE_DECODE_ONLY
        assert turn.decode.engine == before.decode.engine
        await to.client.complete_ticket(router_pb2.CompleteTicketRequest(ticket=turn.ticket))
        await to.client.cancel_ticket(router_pb2.CancelTicketRequest(ticket=before.ticket))


async def test_a_registry_that_comes_back_is_found_again() -> None:
    async with routed() as to:
        await route(to.client, "r0")
        await to.registry_server.drain(0.0)
        assert (await route(to.client, "r1")).mode == router_pb2.ROUTE_MODE_DECODE_ONLY

        async with Server(to.registry_server.address, [to.registry.service()]):
            for turn in range(200):
                answer = await route(to.client, f"back{turn}")
                if answer.mode == router_pb2.ROUTE_MODE_PREFILL_DECODE:
                    break
                await asyncio.sleep(0.05)
            assert answer.mode == router_pb2.ROUTE_MODE_PREFILL_DECODE
