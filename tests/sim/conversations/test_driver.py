"""The driver tells right answers from wrong ones, and from none."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kvlease.sim import answer, tokens
from kvlease.sim.conversations.driver import Driver
from kvlease.sim.conversations.plan import Plan
from kvlease.sim.conversations.record import Outcome, Record
from tests.sim.stack import running

ONE = Plan(conversations=1, concurrent=1, turns=1, think=0.0, ramp=0.0, answer=(4, 4))
Script = Callable[[web.StreamResponse, dict[str, Any]], Awaitable[None]]


async def records_of(script: Script, plan: Plan = ONE) -> list[Record]:
    """Runs a plan against a gateway that answers by *script*."""

    async def serve(request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        await script(reply, await request.json())
        return reply

    app = web.Application()
    app.router.add_post("/v1/chat/completions", serve)
    records: list[Record] = []
    async with TestServer(app) as server:
        await Driver(plan, str(server.make_url("")).rstrip("/"), tell=records.append).run()
    return records


async def send(reply: web.StreamResponse, *events: dict[str, Any] | str) -> None:
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        await reply.write(f"data: {data}\n\n".encode())


def said(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 50, "total_tokens": 54}}


async def answers(reply: web.StreamResponse, body: dict[str, Any]) -> None:
    right = answer.text(tokens.of_chat(body["messages"]), 4)
    await send(reply, *(said(right[n : n + 4]) for n in range(0, 16, 4)), USAGE, "[DONE]")


async def answers_another(reply: web.StreamResponse, body: dict[str, Any]) -> None:
    await answers(reply, body | {"messages": [{"role": "user", "content": "something else"}]})


async def breaks_off(reply: web.StreamResponse, body: dict[str, Any]) -> None:
    right = answer.text(tokens.of_chat(body["messages"]), 1)
    await send(reply, said(right), {"error": {"message": "broken"}}, "[DONE]")


async def says_nothing(reply: web.StreamResponse, body: dict[str, Any]) -> None:
    assert body["stream"]
    await send(reply)


async def admits(reply: web.StreamResponse, body: dict[str, Any]) -> None:
    right = answer.text(tokens.of_chat(body["messages"]), 1)
    await send(reply, said(right), {"choices": [], "kvlease_sim": {"wrong": True}}, "[DONE]")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"error": {"message": "nobody serves it", "type": "server_error"}}', "nobody serves it"),
        ('{"error": {"code": 1}}', "{'code': 1}"),
        ('{"error": ""}', "an error"),
        ("<h1>Bad gateway</h1>", "<h1>Bad gateway</h1>"),
        ("[]", "[]"),
    ],
)
async def test_a_refusal_is_kept_in_the_words_of_who_refused(body: str, why: str) -> None:
    async def serve(_: web.Request) -> web.Response:
        return web.Response(status=503, text=body)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", serve)
    records: list[Record] = []
    async with TestServer(app) as server:
        await Driver(ONE, str(server.make_url("")).rstrip("/"), tell=records.append).run()

    assert [(record.outcome, record.status, record.why) for record in records] == [(Outcome.FAILED, 503, why)]


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (answers, Outcome.OK),
        (answers_another, Outcome.WRONG),
        (admits, Outcome.WRONG),
        (breaks_off, Outcome.CUT),
        (says_nothing, Outcome.CUT),
    ],
)
async def test_an_answer_is_judged_by_its_prompt(script: Script, outcome: Outcome) -> None:
    [record] = await records_of(script)

    assert record.outcome is outcome


async def test_the_words_of_an_answer_are_counted_and_timed() -> None:
    [record] = await records_of(answers)

    assert (record.prompt_tokens, record.total_tokens) == (50, 54)
    assert record.first is not None
    assert record.begun <= record.ended


async def test_conversations_with_simulated_engines_are_right_and_reuse() -> None:
    records: list[Record] = []
    plan = Plan(conversations=6, concurrent=3, turns=4, think=0.0, ramp=0.0, tools=0.3)
    async with running() as stack:
        await Driver(plan, stack.url, tell=records.append).run()

    assert {record.outcome for record in records} == {Outcome.OK}
    assert any(record.cached for record in records)
    assert len({record.conversation for record in records}) == 6


async def test_no_turn_begins_after_the_time_is_over() -> None:
    assert await records_of(answers, Plan(duration=0.0)) == []
