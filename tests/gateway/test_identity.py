"""Which conversation a request belongs to."""

import json
from typing import Any

import pytest

from kvlease.gateway.errors import ApiError
from kvlease.gateway.http.message import Headers, Request
from kvlease.gateway.prompt import CHAT, read_prompt
from tests.conftest import Seen
from tests.gateway.stack import Stack

IN_ORDER = ["session_id", "conversation_id"]
HEADERS = [b"x-session-id", b"x-conversation-id"]
TOOLS_HEADERS = [b"x-dynamo-session-id", b"x-claude-code-session-id", b"session-id"]


def conversation(headers: Headers, **body: Any) -> str:
    request = Request("POST", CHAT, headers, json.dumps({"model": "m", **body}).encode())
    return read_prompt(request).conversation


def test_what_the_caller_names_goes_before_what_tools_send() -> None:
    tools = [(header, header) for header in TOOLS_HEADERS]

    assert [conversation(tools, **{field: "c"}) for field in IN_ORDER] == ["c", "c"]
    assert [conversation([*tools, (header, b"c")]) for header in HEADERS] == ["c", "c"]


def test_of_what_tools_send_the_first_counts() -> None:
    left = list(TOOLS_HEADERS)
    named = []
    while left:
        named.append(conversation([(name, name) for name in reversed(left)]).encode())
        left.pop(0)

    assert named == TOOLS_HEADERS


def test_the_same_name_may_be_said_in_every_way() -> None:
    headers = [(header, b"c") for header in HEADERS]

    assert conversation(headers, session_id="c", conversation_id="c") == "c"


def test_two_names_are_refused() -> None:
    for body, headers, param in (
        ({"session_id": "a", "conversation_id": "b"}, [], "conversation_id"),
        ({"conversation_id": "a"}, [(b"x-conversation-id", b"b")], "x-conversation-id"),
        ({}, [(b"x-conversation-id", b"b"), (b"x-session-id", b"a")], "x-conversation-id"),
        ({"session_id": "a"}, [(b"x-session-id", b"a"), (b"x-conversation-id", b"b")], "x-conversation-id"),
        ({}, [(b"x-conversation-id", b"a"), (b"x-conversation-id", b"b")], "x-conversation-id"),
    ):
        with pytest.raises(ApiError, match=r"two conversations are named: .* says 'a', .* says 'b'") as refused:
            conversation(list(headers), **body)

        assert (refused.value.status, refused.value.param) == (400, param)


def test_nothing_names_none() -> None:
    assert conversation([]) == ""


@pytest.mark.parametrize("nothing", ["", None])
def test_an_empty_name_names_nothing(nothing: str | None) -> None:
    assert conversation([], session_id=nothing) == ""
    assert conversation([(b"x-session-id", b"h")], session_id=nothing) == "h"


@pytest.mark.parametrize("field", IN_ORDER)
@pytest.mark.parametrize("wrong", [42, {}, [], True, "x" * 257, "\u00e9" * 129, "a\0b"])
def test_what_can_be_no_name_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(ApiError) as refused:
        conversation([], **{field: wrong})

    assert (refused.value.status, refused.value.param) == (400, field)


@pytest.mark.parametrize("wrong", [b"x" * 257, b"\xff"])
def test_a_header_that_can_be_no_name_is_refused(wrong: bytes) -> None:
    with pytest.raises(ApiError):
        conversation([(b"session-id", wrong)])


def test_256_bytes_are_not_too_long() -> None:
    assert conversation([], session_id="\u00e9" * 128)


@pytest.mark.case(15)
@pytest.mark.parametrize("wrong", [42, {}, "x" * 10_000, "a\0b"])
async def test_a_client_is_told_in_openais_shape(stack: Stack, wrong: Any, seen: Seen) -> None:
    response = await stack.chat(conversation_id=wrong)

    error = response.json()["error"]
    assert response.status_code == 400
    assert (error["type"], error["param"]) == ("invalid_request_error", "conversation_id")
    assert not stack.decode.received
    seen(f"{repr(wrong)[:10]}: {response.status_code}")


@pytest.mark.case(15)
async def test_an_empty_name_is_no_conversation_that_others_share(stack: Stack, seen: Seen) -> None:
    response = await stack.chat(conversation_id="")

    assert [request.conversation_id for request in stack.calls("Route")] == [""]
    seen(f"'': {response.status_code}, routed without a conversation")
