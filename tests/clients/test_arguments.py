"""What is passed wrongly is refused at once and by name; nobody need be there to refuse it."""

import asyncio
from typing import Any

import pytest

from kvlease.client import aio, sync
from kvlease.client.testing import FakeRegistry

KINDS: list[Any] = [aio.Client, sync.Client]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["registry", "router"])
def test_an_address_is_text(kind: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a string, not 7440"):
        kind(**{name: 7440})


@pytest.mark.parametrize(
    ("method", "given", "more", "told"),
    [
        ("route", ["m"], {"conversation_id": 5}, "conversation_id must be a string, not 5"),
        ("route", [None], {}, "model must be a string, not None"),
        ("renew", [5], {}, "conversation_ids must be a string, not 5"),
        ("renew", [], {"lease_ids": [5]}, "lease_ids must be a string, not 5"),
        ("renew", ["c"], {"ttl": "5s"}, "ttl must be a number of seconds, not '5s'"),
        ("end", [b"c"], {}, "conversation_id must be a string, not b'c'"),
        ("end", ["c"], {"timeout": "5s"}, "timeout must be a number of seconds, not '5s'"),
        ("list_leases", [], {"engine_id": 5}, "engine_id must be a string, not 5"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(method: str, given: list[Any], more: dict[str, Any], told: str) -> None:
    with sync.Client() as client, pytest.raises(TypeError, match=told):
        getattr(client, method)(*given, **more)

    async def call() -> None:
        async with aio.Client() as client:
            await getattr(client, method)(*given, **more)

    with pytest.raises(TypeError, match=told):
        asyncio.run(call())


@pytest.mark.parametrize(
    ("conversation", "ttl", "error", "told"),
    [
        ("", 60.0, ValueError, "conversation_id must not be empty"),
        (5, 60.0, TypeError, "conversation_id must be a string, not 5"),
        ("c", "5s", TypeError, "ttl must be a number of seconds, not '5s'"),
    ],
)
def test_what_cannot_be_held_is_refused(conversation: Any, ttl: Any, error: type[Exception], told: str) -> None:
    with sync.Client() as client, pytest.raises(error, match=told), client.conversation(conversation, ttl=ttl):
        pass


def test_a_turns_time_is_a_number(registry: FakeRegistry) -> None:
    with sync.Client(registry=registry.address) as client, client.conversation("c") as conversation:
        timeout: Any = "5s"
        with pytest.raises(TypeError, match="timeout must be a number of seconds, not '5s'"):
            conversation.chat([], model="m", timeout=timeout)


@pytest.mark.parametrize(
    ("kind", "way"),
    [(sync.Client, "`with client.conversation"), (aio.Client, "`async with client.conversation")],
)
@pytest.mark.parametrize("member", ["chat", "held", "remaining", "conversation_id"])
def test_a_conversation_that_is_not_entered_says_how(kind: Any, way: str, member: str) -> None:
    with pytest.raises(AttributeError, match=f"{way}.*`conversation.{member}`"):
        getattr(kind().conversation("c"), member)


@pytest.mark.parametrize("kind", KINDS)
def test_it_has_no_other_members_either(kind: Any) -> None:
    assert not hasattr(kind().conversation("c"), "no_such_member")
