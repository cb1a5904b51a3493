"""The routes beside completions, and what any request may get wrong."""

import asyncio
from typing import Any

import pytest

from tests.gateway.stack import MESSAGES, Stack
from tests.support.openai_engine import MODEL


async def test_models_are_those_of_the_decode_engines(stack: Stack) -> None:
    listed = (await stack.http.get("/v1/models")).json()

    assert listed["object"] == "list"
    assert [(model["id"], model["object"]) for model in listed["data"]] == [(MODEL, "model")]


async def test_health_tells_whether_a_request_would_succeed(stack: Stack) -> None:
    assert (await stack.http.get("/health")).status_code == 200

    stack.registry.engines["decode"].healthy = False
    await stack.called("ListEngines", len(stack.calls("ListEngines")) + 2)

    response = await stack.http.get("/health")
    assert response.status_code == 503
    assert "no healthy decode engine" in response.json()["error"]["message"]


async def test_an_ended_conversation_has_no_lease(stack: Stack) -> None:
    await stack.chat(session_id="a/b \u00e9")
    assert stack.registry.leases("a/b \u00e9")

    response = await stack.http.delete("/v1/conversations/a%2Fb%20%C3%A9")

    assert response.json() == {"id": "a/b \u00e9", "object": "conversation.deleted", "deleted": True, "leases": 1}
    assert not stack.registry.leases("a/b \u00e9")


@pytest.mark.parametrize("name", ["", "x" * 257, "a%00b"])
async def test_what_can_be_no_conversation_is_not_ended(stack: Stack, name: str) -> None:
    assert (await stack.http.delete(f"/v1/conversations/{name}")).status_code == 400


async def test_a_conversation_that_cannot_be_ended_is_told(stack: Stack) -> None:
    stack.registry.stop()

    assert (await stack.http.delete("/v1/conversations/a")).status_code == 503


async def test_metrics_count_turns(stack: Stack) -> None:
    for _ in range(2):
        await stack.chat(session_id="c", stream=True)
    await stack.http.post("/v1/chat/completions", json={})

    text = (await stack.http.get("/metrics")).text
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}
    assert values['kvlease_gateway_requests_total{code="200",route="/v1/chat/completions"}'] == 2
    assert values['kvlease_gateway_requests_total{code="400",route="/v1/chat/completions"}'] == 1
    assert values["kvlease_gateway_first_byte_seconds_count"] == 2
    assert values['kvlease_gateway_prompt_tokens_total{source="reused"}'] > 0
    assert values["kvlease_gateway_in_flight"] == 1


@pytest.mark.parametrize("path", ["/", "/ui/"])
async def test_whoever_looks_at_the_address_alone_is_sent_to_the_status_page(stack: Stack, path: str) -> None:
    response = await stack.http.get(path)

    assert (response.status_code, response.headers["location"]) == (307, "/ui")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1", 404),
        ("POST", "/", 405),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/nothing?x=1", 404),
        ("PUT", "/health", 405),
    ],
)
async def test_what_is_not_there_is_told_in_openais_shape(stack: Stack, method: str, path: str, status: int) -> None:
    response = await stack.http.request(method, path)

    assert response.status_code == status
    assert response.json()["error"].keys() == {"message", "type", "param", "code"}
    assert ("allow" in response.headers) == (status == 405)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"{", None),
        (b"[]", None),
        (b"[" * 100_000, None),
        (b'{"model":"\xff"}', "model"),
        (b'{"messages":[]}', "model"),
        (b'{"model":1}', "model"),
        (b'{"model":"m","stream":"yes"}', "stream"),
        (b'{"model":"m","n":"two"}', "n"),
    ],
)
async def test_what_cannot_be_read_is_told(stack: Stack, body: bytes, param: str | None) -> None:
    response = await stack.http.post("/v1/chat/completions", content=body)

    assert response.status_code == 400
    if param:
        assert response.json()["error"]["param"] == param
    assert not stack.decode.received


async def test_conversations_at_work_are_renewed(stack: Stack) -> None:
    """In one call for all of a tenant's."""
    stack.decode.gate.clear()
    for name in ("a", "b"):
        stack.registry.grant(name)
    asked = [asyncio.create_task(stack.chat(session_id=name)) for name in ("a", "b")]
    await stack.decode.request(2)

    [renewed, *_] = await stack.called("RenewLeases")

    stack.decode.gate.set()
    await asyncio.gather(*asked)
    assert {renewal.conversation_id for renewal in renewed.renewals} == {"a", "b"}


async def test_a_large_prompt_passes(stack: Stack) -> None:
    content: Any = [{**MESSAGES[0], "content": "x" * 1_000_000}]

    response = await stack.http.post("/v1/chat/completions", json={"model": MODEL, "messages": content})

    assert response.status_code == 200
    assert (await stack.decode.request()).body["messages"] == content
