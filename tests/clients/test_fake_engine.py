"""What an application's own tests can have of a fake engine."""

from collections.abc import Iterator
from typing import Any

import pytest

from kvlease.client.chat_sync import Answer
from kvlease.client.conversation import Conversation
from kvlease.client.errors import AnswerBroken, DeadlineExceeded, EngineRefused, EngineUnreachable
from kvlease.client.sync import Client
from kvlease.client.testing import FakeEngine, FakeRegistry, FakeRouter, Reply
from kvlease.client.types import EngineRole
from tests.support.clock import FakeClock

MODEL = "my-model"
ASK: list[dict[str, Any]] = [{"role": "user", "content": "How far is the moon?"}]


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    with FakeEngine() as engine:
        yield engine


@pytest.fixture
def conversation(engine: FakeEngine) -> Iterator[Conversation[Answer]]:
    with FakeRegistry() as registry, FakeRouter(registry) as router:
        registry.add_engine("engine-0", model=MODEL, http_url=engine.url)
        with (
            Client(registry=registry.address, router=router.address) as client,
            client.conversation("c") as conversation,
        ):
            yield conversation


def ask(conversation: Conversation[Answer], **options: Any) -> Answer:
    answer = conversation.chat(ASK, model=MODEL, **options)
    list(answer)
    return answer


def test_an_agent_with_a_tool_is_testable(engine: FakeEngine, conversation: Conversation[Answer]) -> None:
    engine.say_next(Reply(calls=[("look_up", {"what": "moon"})]), Reply(words=["384,000", " km"]))
    messages = list(ASK)

    asked = conversation.chat(messages, model=MODEL)
    list(asked)
    (call,) = asked.message["tool_calls"]
    messages += [asked.message, {"role": "tool", "tool_call_id": call["id"], "content": "384,000 km"}]
    told = conversation.chat(messages, model=MODEL)
    list(told)

    assert asked.finish_reason == "tool_calls"
    assert call["function"] == {"name": "look_up", "arguments": '{"what": "moon"}'}
    assert (told.text, told.finish_reason) == ("384,000 km", "stop")
    assert engine.requests[-1]["messages"] == messages


def test_it_says_its_words_again_when_it_was_told_nothing_more(
    engine: FakeEngine, conversation: Conversation[Answer]
) -> None:
    engine.say_next(Reply(words=["Once"], finish_reason="length"))

    first, second = ask(conversation), ask(conversation)

    assert (first.text, first.finish_reason) == ("Once", "length")
    assert (second.text, second.finish_reason) == ("Hello there", "stop")


def test_it_refuses(engine: FakeEngine, conversation: Conversation[Answer]) -> None:
    engine.fail_next(400)

    with pytest.raises(EngineRefused, match="told to fail") as refused:
        ask(conversation)

    assert refused.value.status == 400


def test_it_fails_and_is_tried_again(engine: FakeEngine, conversation: Conversation[Answer]) -> None:
    engine.fail_next(503, 503)

    assert ask(conversation).text == "Hello there"
    assert len(engine.requests) == 3


def test_it_breaks_off(engine: FakeEngine, conversation: Conversation[Answer]) -> None:
    engine.say_next(Reply(words=["Hel", "lo"], breaks_after=1))
    answer = conversation.chat(ASK, model=MODEL)

    with pytest.raises(AnswerBroken):
        list(answer)

    assert answer.text == "Hel"


def test_it_freezes(engine: FakeEngine, conversation: Conversation[Answer]) -> None:
    engine.freeze()
    with pytest.raises(DeadlineExceeded):
        ask(conversation, timeout=0.2)

    engine.thaw()
    assert ask(conversation).text == "Hello there"


def test_it_stops_and_comes_back(engine: FakeEngine, conversation: Conversation[Answer]) -> None:
    engine.stop()
    with pytest.raises(EngineUnreachable):
        ask(conversation)

    engine.start(engine.port)
    assert ask(conversation).text == "Hello there"


def test_stopping_cuts_what_is_frozen(engine: FakeEngine, conversation: Conversation[Answer]) -> None:
    engine.freeze()
    with pytest.raises(DeadlineExceeded):
        ask(conversation, timeout=0.2)

    engine.stop()


def test_prefills_share_takes_no_reply() -> None:
    with FakeEngine() as engine, FakeRegistry() as registry, FakeRouter(registry) as router:
        registry.add_engine("decode", role=EngineRole.DECODE, model=MODEL, http_url=engine.url)
        registry.add_engine("prefill", role=EngineRole.PREFILL, model=MODEL, http_url=engine.url)
        engine.say_next(Reply(words=["Once"]))
        with Client(registry=registry.address, router=router.address) as client, client.conversation("c") as asked:
            assert ask(asked).text == "Once"


def test_leases_live_by_the_clock_that_is_handed_in() -> None:
    clock = FakeClock()
    with FakeRegistry(clock=clock) as registry, Client(registry=registry.address) as client:
        registry.grant("c", ttl=60.0)
        clock.advance(61.0)

        assert client.list_leases() == []


def test_it_has_no_address_before_it_listens() -> None:
    with pytest.raises(RuntimeError, match="with"):
        _ = FakeEngine().url
