"""API keys: who is served, as whom, and how much."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kvlease.rpc import Protection, Role
from tests.gateway.stack import MESSAGES, Stack, running
from tests.support.credentials import keys_file, token_of
from tests.support.openai_engine import MODEL
from tests.support.raw_http import raw_client

HOST = {"remote_host": "10.0.0.66", "remote_port": 1, "do_remote_prefill": True}


@asynccontextmanager
async def keyed(folder: Path, limits: str = "") -> AsyncIterator[Stack]:
    async with running(protection=Protection(keys_file=keys_file(folder, limits=limits))) as stack:
        yield stack


def bearer(tenant: str, **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token_of(Role.APPLICATION, tenant)}", **more}


async def chat(stack: Stack, headers: dict[str, str], **body: Any) -> httpx.Response:
    return await stack.http.post(
        "/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES, **body}, headers=headers
    )


@pytest.mark.parametrize("method", ["POST /v1/chat/completions", "GET /v1/models", "DELETE /v1/conversations/c"])
async def test_without_a_key_nothing_is_served(method: str, tmp_path: Path) -> None:
    verb, path = method.split(" ")
    async with keyed(tmp_path) as stack:
        answers = [
            await stack.http.request(verb, path, headers=headers)
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic eDp5"})
        ]

    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert [answer.headers["www-authenticate"] for answer in answers] == ["Bearer"] * 3
    assert answers[1].json()["error"]["code"] == "invalid_api_key"
    assert {answer.json()["error"]["type"] for answer in answers} == {"authentication_error"}


async def test_the_key_of_a_service_is_no_api_key(tmp_path: Path) -> None:
    async with keyed(tmp_path) as stack:
        answer = await chat(stack, {"authorization": f"Bearer {token_of(Role.ENGINE, 'd0')}"})

    assert answer.status_code == 403


async def test_the_tenant_comes_from_the_key_and_from_nothing_else(tmp_path: Path) -> None:
    async with keyed(tmp_path) as stack:
        answer = await chat(stack, bearer("a", **{"x-kvlease-tenant": "b"}), tenant="b", conversation_id="c")
        await stack.called("CompleteTicket")

    assert answer.status_code == 200
    assert {call.tenant for call in stack.router.calls} == {"a"}


async def test_an_operator_may_name_a_tenant(tmp_path: Path) -> None:
    async with keyed(tmp_path) as stack:
        operator = {"authorization": f"Bearer {token_of(Role.OPERATOR)}", "x-kvlease-tenant": "b"}
        ended = await stack.http.delete("/v1/conversations/c", headers=operator)

    assert ended.status_code == 200
    assert [call.tenant for call in stack.registry.calls if call.method == "EndConversation"] == ["b"]


async def test_an_api_key_of_the_gateway_stays_there_and_one_of_the_engines_goes_to_them(tmp_path: Path) -> None:
    async with keyed(tmp_path) as stack:
        await chat(stack, bearer("a"))
        ours = await stack.decode.request()
    async with running() as stack:
        await chat(stack, {"authorization": "Bearer the engines'"})
        theirs = await stack.decode.request()
    async with running(engine_key=b"told") as stack:
        await chat(stack, {"authorization": "Bearer the client's"})
        told = await stack.decode.request()

    assert "authorization" not in ours.headers
    assert theirs.headers["authorization"] == "Bearer the engines'"
    assert told.headers["authorization"] == "Bearer told"


async def test_transfer_parameters_of_a_client_are_stripped(tmp_path: Path) -> None:
    async with keyed(tmp_path) as stack:
        answer = await chat(
            stack, bearer("a"), kv_transfer_params=HOST, vllm_xargs={"kv_transfer_params": HOST, "keep": 1}
        )
        bodies = [(await engine.request()).body for engine in (stack.prefill, stack.decode)]

    assert answer.status_code == 200
    for body in bodies:
        assert list(body["kv_transfer_params"]) == ["kvlease_ticket"]
        assert body["vllm_xargs"] == {"keep": 1}


async def test_a_tenant_that_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    async with keyed(tmp_path, "[tenants.a]\nrate = 0.1\nburst = 2") as stack:
        answers = [await chat(stack, bearer("a")) for _ in range(3)]
        other = await chat(stack, bearer("b"))

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 10
    assert answers[2].json()["error"]["code"] == "rate_limit_exceeded"
    assert other.status_code == 200


async def test_a_tenant_has_so_many_requests_at_a_time(tmp_path: Path) -> None:
    async with keyed(tmp_path, "[tenants.a]\nconcurrent = 1") as stack:
        stack.decode.gate.clear()
        first = asyncio.create_task(chat(stack, bearer("a")))
        await stack.decode.request()
        second = await chat(stack, bearer("a"))
        stack.decode.gate.set()

        assert (second.status_code, second.headers["retry-after"]) == (429, "1")
        assert (await first).status_code == 200
        assert (await chat(stack, bearer("a"))).status_code == 200


async def test_a_tenants_longest_request(tmp_path: Path) -> None:
    async with keyed(tmp_path, "[tenants.a]\nrequest_bytes = 1000") as stack:
        answers = [await chat(stack, bearer("a"), user="x" * length) for length in (10, 1000)]

    assert [answer.status_code for answer in answers] == [200, 413]


async def test_health_and_metrics_need_no_key(tmp_path: Path) -> None:
    async with keyed(tmp_path) as stack:
        assert (await stack.http.get("/health")).status_code == 200
        assert (await stack.http.get("/metrics")).status_code == 200


@pytest.mark.parametrize("framing", ["content-length: 1000000", "transfer-encoding: chunked"])
async def test_a_stranger_sends_no_long_body(framing: str, tmp_path: Path) -> None:
    """It is told so before it has sent any of it, and its connection closed."""
    async with keyed(tmp_path) as stack, raw_client(int(stack.gateway.url.rpartition(":")[2])) as client:
        await client.send(f"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n{framing}\r\n\r\n".encode())

        status, headers, _ = await client.answer()

    assert (status, headers["www-authenticate"], headers["connection"]) == (401, "Bearer", "close")


async def test_a_long_body_with_a_key_is_taken(tmp_path: Path) -> None:
    async with keyed(tmp_path) as stack:
        answer = await chat(stack, bearer("a"), user="x" * 100_000)

    assert answer.status_code == 200
