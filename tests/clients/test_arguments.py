"""What is passed wrongly is refused at once and by name; nobody need be there to refuse it."""

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

import pytest
from openai import OpenAI

from kvlease.client import aio, arguments, sync
from kvlease.client.errors import Malformed
from kvlease.client.openai import with_conversation
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
        ("end", [None], {}, "conversation_id must be a string, not None"),
        ("revoke", [5], {}, "engine_id must be a string, not 5"),
        ("drain", [5], {}, "engine_id must be a string, not 5"),
        ("get_lease", [None], {}, "lease_id must be a string, not None"),
        ("get_ticket", [None], {}, "ticket_id must be a string, not None"),
        ("complete", [None], {}, "ticket must be a string, not None"),
        ("cancel", [None], {}, "ticket must be a string, not None"),
        ("list_tickets", [], {"conversation_id": 5}, "conversation_id must be a string, not 5"),
        ("end", ["c"], {"timeout": "5s"}, "timeout must be a number of seconds, not '5s'"),
        ("list_leases", [], {"engine_id": 5}, "engine_id must be a string, not 5"),
        ("route", ["m"], {"prompt_tokens": "7"}, "prompt_tokens must be a whole number, not '7'"),
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


def the_doors(client: Any) -> dict[str, Callable[[Any], Any]]:
    """Whatever takes the id of a conversation."""
    return {
        "route": lambda name: client.route("m", conversation_id=name),
        "renew": client.renew,
        "end": client.end,
        "list_leases": lambda name: client.list_leases(conversation_id=name),
        "list_tickets": lambda name: client.list_tickets(conversation_id=name),
        "conversation": lambda name: client.conversation(name).__enter__(),
        "with_conversation": lambda name: with_conversation(OpenAI(base_url="http://gateway/v1", api_key="-"), name),
    }


NOBODY = ("route", "list_leases", "list_tickets")  # take an empty id for none


@pytest.mark.parametrize("name", ["", "x" * 257, "\u00e9" * 129, "a\0b", "\ud800"])
def test_an_id_that_can_be_none_is_malformed_at_every_door(name: str) -> None:
    with sync.Client() as client:
        for door, take in the_doors(client).items():
            if name or door not in NOBODY:
                with pytest.raises(Malformed, match=r"conversation_ids? must be") as refused:
                    take(name)
                assert isinstance(refused.value, ValueError), door
                assert refused.value.violations, door


@pytest.mark.parametrize("name", [None, 5, b"c"])
def test_an_id_that_is_no_text_is_a_type_error_at_every_door(name: Any) -> None:
    with sync.Client() as client:
        for take in the_doors(client).values():
            with pytest.raises(TypeError, match=r"conversation_ids? must be a string"):
                take(name)


@pytest.mark.parametrize(
    ("conversation", "ttl", "error", "told"),
    [
        ("", 60.0, Malformed, "conversation_id must be 1 to 256 bytes"),
        ("x" * 257, 60.0, Malformed, "conversation_id must be 1 to 256 bytes"),
        ("c", 0.0, Malformed, "ttl must be a positive number of seconds, not 0.0"),
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


@pytest.mark.parametrize("messages", ["hello", ["hello"], {"role": "user", "content": "hello"}, [("role", "user")]])
def test_a_turn_says_messages(registry: FakeRegistry, messages: Any) -> None:
    with sync.Client(registry=registry.address) as client, client.conversation("c") as conversation:
        with pytest.raises(TypeError, match=r"messages must be a list of \{'role'"):
            conversation.chat(messages, model="m")
        with pytest.raises(TypeError, match="model must be a string, not None"):
            conversation.chat([], model=cast("Any", None))


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


@pytest.mark.parametrize(
    ("method", "given", "more", "told"),
    [
        ("route", ["m"], {"prompt_tokens": -1}, "prompt_tokens must be from 0 to 2147483647, not -1"),
        ("list_tickets", [], {"limit": -1}, "limit must be from 0 to 2147483647, not -1"),
        ("end", ["c"], {"timeout": math.nan}, "timeout must be a number of seconds, not NaN"),
    ],
)
def test_numbers_that_can_be_none_are_malformed(method: str, given: list[Any], more: dict[str, Any], told: str) -> None:
    with sync.Client() as client, pytest.raises(Malformed, match=told):
        getattr(client, method)(*given, **more)


def test_a_timeout_may_be_as_long_as_one_likes(registry: FakeRegistry) -> None:
    with sync.Client(registry=registry.address) as client:
        assert len(client.list_engines(timeout=math.inf)) == 2
        assert next(client.watch_leases(timeout=1e12))


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"": "c"}, {"a": "b\r\nc: d"}, {"a": "\u20ac"}])
def test_headers_that_http_cannot_carry_are_malformed_before_anything_is_sent(headers: dict[str, str]) -> None:
    with pytest.raises(Malformed, match="headers must be such as HTTP carries"):
        arguments.headers(headers)
    assert arguments.headers({"authorization": "Bearer x", "traceparent": "00-1"})
