"""What fails around a turn, and that its client hardly notices."""

import asyncio
import json
from typing import Any

import pytest

from kvlease.client.errors import NoEngine, RegistryUnreachable
from kvlease.client.types import EngineRole
from kvlease.v1 import router_pb2
from tests.gateway.stack import MESSAGES, Stack, running
from tests.support.openai_engine import MODEL, Drop, Script, drop, event, events, pieces, told

DONE = b"data: [DONE]\n\n"
ROLE = event(True, 0, {"role": "assistant", "content": ""})
ERROR = b'data: {"error": {"message": "Internal server error", "type": "InternalServerError", "code": 500}}\n\n'


async def decode_is_told(stack: Stack) -> None:
    """Asks, while decode answers nobody before it is told that it must do without prefill."""
    stack.decode.gate.clear()
    asked = asyncio.create_task(stack.chat())

    [cancelled] = await stack.called("CancelTicket")

    stack.decode.gate.set()
    assert cancelled.leg == router_pb2.LEG_PREFILL
    assert (await asked).status_code == 200


@pytest.mark.parametrize("failure", [told(500), told(400), drop])
async def test_decode_works_alone_when_prefill_fails(stack: Stack, failure: Script) -> None:
    """Case 12: decode waits for prefill until it is told not to."""
    stack.prefill.next(failure)
    await decode_is_told(stack)


async def test_decode_works_alone_when_prefill_is_where_no_name_leads(stack: Stack) -> None:
    stack.registry.engines["prefill"].engine.http_url = "http://prefill..svc:8000"
    await decode_is_told(stack)


async def test_that_prefill_failed_is_told_until_it_is_heard(stack: Stack) -> None:
    stack.prefill.next(told(500))
    stack.prefill.gate.clear()
    stack.decode.gate.clear()
    asked = asyncio.create_task(stack.chat())
    await stack.prefill.request()
    stack.router.fail_next(RegistryUnreachable("did not answer"))
    stack.prefill.gate.set()

    first, second = await stack.called("CancelTicket", 2)

    stack.decode.gate.set()
    assert first == second
    assert (await asked).status_code == 200


async def test_decode_works_alone_when_prefill_is_not_reached(stack: Stack) -> None:
    await stack.prefill.stop()
    await decode_is_told(stack)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(told(500), id="500"),
        pytest.param(told(503), id="503"),
        pytest.param(drop, id="dropped"),
        pytest.param(pieces(), id="nothing"),
        pytest.param(pieces(DONE), id="done at once"),
        pytest.param(pieces(ERROR, DONE), id="error"),
        pytest.param(pieces(ROLE, ERROR, DONE), id="role, then error"),
        pytest.param(pieces(ROLE + ERROR + DONE), id="role and error at once"),
        pytest.param(pieces(ROLE, DONE), id="role, then nothing"),
        pytest.param(pieces(ROLE, ROLE[:20]), id="role, then half an event"),
    ],
)
async def test_decode_that_fails_before_it_said_anything_is_replaced(
    stack: Stack, failure: Script, stream: bool
) -> None:
    """Never 200 without content (case 17)."""
    stack.register("other", stack.other, EngineRole.DECODE)
    stack.decode.next(failure)

    response = await stack.chat(stream=stream)

    assert response.status_code == 200
    if stream:
        assert response.content == b"".join(events({}, stack.other.words, chat=True))
    first, second = stack.calls("Route")
    assert [excluded.engine_id for excluded in second.exclude] == ["decode"]
    assert first.request_id != second.request_id
    cancelled = await stack.called("CancelTicket")
    assert (await stack.decode.request()).ticket in [request.ticket for request in cancelled]


async def test_decode_that_was_killed_is_replaced(stack: Stack) -> None:
    """Case 33: between the route and the dispatch."""
    stack.register("other", stack.other, EngineRole.DECODE)
    await stack.decode.stop()

    response = await stack.chat(stream=True)

    assert response.status_code == 200
    assert stack.other.received


async def test_a_router_that_names_a_failed_engine_again_is_not_asked_for_ever(stack: Stack) -> None:
    stack.decode.next(*[told(500)] * 10)
    choose = stack.router._choose

    def stubborn(request: router_pb2.RouteRequest, tenant: str) -> Any:
        del request.exclude[:]
        return choose(request, tenant)

    stack.router._choose = stubborn  # type: ignore[method-assign]

    assert (await stack.chat()).status_code == 500
    assert len(stack.decode.received) == 3


async def test_the_engines_own_words_are_told_when_no_other_can_serve(stack: Stack) -> None:
    stack.decode.next(told(500, "out of luck"))

    response = await stack.chat()

    assert response.status_code == 500
    assert response.json()["error"]["message"] == "out of luck"


async def test_retries_are_bounded() -> None:
    async with running(retries=0) as stack:
        stack.register("other", stack.other, EngineRole.DECODE)
        stack.decode.next(told(502))

        response = await stack.chat()

        assert response.status_code == 502
        assert not stack.other.received


async def test_no_decode_at_all_is_503_at_once(stack: Stack) -> None:
    """Case 12."""
    await stack.decode.stop()

    response = await stack.chat()

    assert response.status_code == 503
    assert response.json()["error"]["code"] == "unavailable"
    assert int(response.headers["retry-after"]) >= 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_of_decode_is_passed_on_and_the_turn_cancelled(stack: Stack, stream: bool) -> None:
    """Case 23: both legs' blocks are to be freed."""
    stack.prefill.gate.clear()
    stack.decode.next(told(400, "bad tools"))

    response = await stack.chat(stream=stream)

    assert response.status_code == 400
    assert response.json()["error"]["message"] == "bad tools"
    await stack.called("CancelTicket")
    assert router_pb2.LEG_UNSPECIFIED in {request.leg for request in stack.calls("CancelTicket")}
    async with asyncio.timeout(5):
        await (await stack.prefill.request()).left.wait()


async def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(stack: Stack) -> None:
    said = event(True, 0, {"content": "Hel"})
    stack.decode.next(pieces(ROLE, said, said[:30], then=Drop))

    response = await stack.chat(stream=True)

    *relayed, error, done, _ = response.content.split(b"\n\n")
    assert b"\n\n".join([*relayed, b""]) == ROLE + said
    assert json.loads(error.removeprefix(b"data: "))["error"]["code"] == "engine_failed"
    assert done == DONE.strip()
    await stack.called("CancelTicket")
    assert not stack.calls("CompleteTicket")


async def test_an_error_in_the_midst_of_a_stream_is_passed_on(stack: Stack) -> None:
    whole = ROLE + event(True, 0, {"content": "Hel"}) + ERROR + DONE
    stack.decode.next(pieces(whole))

    response = await stack.chat(stream=True)

    assert response.content == whole
    await stack.called("CancelTicket")
    assert not stack.calls("CompleteTicket")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_takes_both_legs_with_it(stack: Stack, stream: bool) -> None:
    """Case 22."""
    stack.prefill.gate.clear()
    stack.decode.gate.clear()
    asked = asyncio.create_task(stack.chat(stream=stream))
    prefill, decode = await stack.prefill.request(), await stack.decode.request()

    asked.cancel()

    async with asyncio.timeout(5):
        await asyncio.gather(prefill.left.wait(), decode.left.wait())
    [cancelled] = await stack.called("CancelTicket")
    assert cancelled.leg == router_pb2.LEG_UNSPECIFIED


async def test_a_client_that_leaves_in_mid_stream_ends_the_turn(stack: Stack) -> None:
    held = asyncio.Event()

    async def endless(_: Any, wire: Any) -> None:
        await wire.begin_stream()
        await wire.piece(ROLE + event(True, 0, {"content": "x"}))
        await held.wait()

    stack.decode.next(endless)
    body = {"model": MODEL, "messages": MESSAGES, "stream": True}
    async with stack.http.stream("POST", "/v1/chat/completions", json=body) as response:
        async for _ in response.aiter_raw():
            break

    async with asyncio.timeout(5):
        await (await stack.decode.request()).left.wait()
    await stack.called("CancelTicket")


async def test_an_unknown_model_is_404(stack: Stack) -> None:
    response = await stack.http.post("/v1/chat/completions", json={"model": "huge", "messages": MESSAGES})

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("refusal", [NoEngine("none fits"), RegistryUnreachable("gone")])
async def test_an_engine_that_was_there_a_moment_ago_is_tried(stack: Stack, refusal: Exception) -> None:
    """A registry that restarts is empty until its engines have come back (case 18)."""
    stack.router.fail_next(refusal)  # type: ignore[arg-type]

    response = await stack.chat()

    assert response.status_code == 200
    assert (await stack.decode.request()).ticket is None


async def test_turns_are_served_without_a_router(stack: Stack) -> None:
    """Case 18."""
    stack.router.stop()

    responses = [await stack.chat(session_id="c1", stream=stream) for stream in (False, True)]

    assert [response.status_code for response in responses] == [200, 200]
    assert not stack.prefill.received
    assert all("kv_transfer_params" not in received.body for received in stack.decode.received)


async def test_a_frozen_router_costs_its_budget_and_soon_nothing() -> None:
    """Case 19."""
    async with running(wait=0.02) as stack:
        stack.router.freeze()

        responses = [await stack.chat() for _ in range(8)]

        assert {response.status_code for response in responses} == {200}
        assert len(stack.calls("Route")) < 8


async def test_a_ticket_that_cannot_be_completed_holds_the_answer_no_longer_than_the_budget() -> None:
    async with running(wait=0.1) as stack:
        stack.decode.gate.clear()
        asked = asyncio.create_task(stack.chat(stream=True))
        await stack.decode.request()
        stack.router.freeze()

        stack.decode.gate.set()

        assert (await asked).content.endswith(DONE)


async def test_a_turn_waits_no_longer_for_an_engine_that_is_gone(stack: Stack) -> None:
    """Its host may have vanished without closing anything (case 10)."""
    stack.register("other", stack.other, EngineRole.DECODE)
    stack.decode.gate.clear()
    asked = asyncio.create_task(stack.chat())
    await stack.decode.request()

    stack.registry.engines["decode"].healthy = False

    assert (await asked).status_code == 200
    assert stack.other.received


async def test_a_kept_connection_that_the_engine_closed_is_replaced(stack: Stack) -> None:
    await stack.chat()
    for engine in (stack.prefill, stack.decode):
        engine.hang_up()

    response = await stack.chat()

    assert response.status_code == 200
    assert not stack.calls("CancelTicket")
