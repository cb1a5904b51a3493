"""A conversation that is held stays, whatever its program does meanwhile."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kvlease.client import aio, sync
from kvlease.client.errors import DeadlineExceeded, PermissionDenied, Unavailable
from kvlease.client.testing import FakeRegistry
from kvlease.client.types import EngineRef

SHORT = 2.1  # seconds asked for with every renewal, a third of which lies between two


@pytest.fixture
def client(registry: FakeRegistry) -> Iterator[sync.Client]:
    with sync.Client(registry=registry.address) as client:
        yield client


def renewed_again(registry: FakeRegistry, times: int = 1) -> bool:
    """Waits until renewals that began from now on have been answered: when the next one comes, the last one was."""
    seen = sum(call.method == "RenewLeases" for call in registry.calls)
    return registry.wait_for("RenewLeases", seen + times + 1)


def keepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kvlease-keeper"]


def test_it_is_held_from_the_first_line_of_the_block(client: sync.Client, registry: FakeRegistry) -> None:
    registry.grant("c", ttl=5.0)

    with client.conversation("c", ttl=30.0) as conversation:
        assert conversation.held
        assert 5.0 < conversation.remaining <= 30.0
        assert conversation.conversation_id == "c"


def test_it_is_renewed_while_the_program_does_something_else(client: sync.Client, registry: FakeRegistry) -> None:
    registry.grant("c", ttl=SHORT)

    with client.conversation("c", ttl=SHORT) as conversation:
        assert renewed_again(registry, times=3)
        assert conversation.held


async def test_it_is_renewed_while_the_event_loop_is_blocked(registry: FakeRegistry) -> None:
    registry.grant("c", ttl=SHORT)

    async with aio.Client(registry=registry.address) as client, client.conversation("c", ttl=SHORT) as conversation:
        assert renewed_again(registry, times=3)  # in the loop's own thread, on purpose
        assert conversation.held


def test_nothing_is_renewed_before_and_after_the_block(client: sync.Client, registry: FakeRegistry) -> None:
    registry.grant("c", ttl=SHORT)
    client.list_leases()
    assert not keepers()

    with client.conversation("c", ttl=SHORT):
        (keeper,) = keepers()
    keeper.join(timeout=10.0)

    assert not keeper.is_alive()
    assert len(client.list_leases()) == 1


def test_all_conversations_of_a_client_share_one_thread_and_their_calls(
    client: sync.Client, registry: FakeRegistry
) -> None:
    for name in ("a", "b"):
        registry.grant(name, ttl=SHORT)
    with client.conversation("a", ttl=SHORT) as first, client.conversation("b", ttl=SHORT) as second:
        assert len(keepers()) == 1
        assert renewed_again(registry)
        assert first.held
        assert second.held


def test_a_conversation_without_a_lease_is_not_held_until_one_is_granted(
    client: sync.Client, registry: FakeRegistry
) -> None:
    with client.conversation("c", ttl=SHORT) as conversation:
        assert not conversation.held
        assert conversation.remaining == 0.0
        registry.grant("c")
        assert renewed_again(registry)

        assert conversation.held


def test_a_conversation_that_was_ended_elsewhere_is_not_held(client: sync.Client, registry: FakeRegistry) -> None:
    registry.grant("c", ttl=SHORT)

    with client.conversation("c", ttl=SHORT) as conversation:
        client.end("c")
        assert renewed_again(registry)

        assert not conversation.held


@pytest.mark.parametrize("kind", ["end", "end in vain", "renew"])
def test_what_the_client_itself_heard_to_be_gone_is_not_held(
    client: sync.Client, registry: FakeRegistry, kind: str
) -> None:
    registry.grant("c")
    with client.conversation("c") as conversation, sync.Client(registry=registry.address) as other:
        assert conversation.held
        match kind:
            case "end":
                client.end("c")
            case "end in vain":
                other.end("c")
                client.end("c")
            case "renew":
                other.end("c")
                client.renew("another", "c")

        assert not conversation.held


async def test_what_the_client_itself_heard_to_be_gone_is_not_held_by_tasks(registry: FakeRegistry) -> None:
    registry.grant("a")
    registry.grant("b")
    async with (
        aio.Client(registry=registry.address) as client,
        client.conversation("a") as first,
        client.conversation("b") as second,
    ):
        await client.end("a")
        assert (first.held, second.held) == (False, True)
        with sync.Client(registry=registry.address) as other:
            other.end("b")
        await client.renew("b")
        assert not second.held


@pytest.mark.parametrize("call", ["end", "revoke"])
def test_a_call_without_an_answer_may_have_ended_it(client: sync.Client, registry: FakeRegistry, call: str) -> None:
    registry.grant("c")
    with client.conversation("c") as conversation:
        registry.freeze()
        with pytest.raises(DeadlineExceeded):
            getattr(client, call)("c", timeout=0.1)

        assert not conversation.held
        registry.thaw()


def test_what_was_revoked_is_not_held(client: sync.Client, registry: FakeRegistry) -> None:
    registry.grant("c", engine=EngineRef("engine", "1"))
    with client.conversation("c") as conversation:
        assert client.revoke("engine") == 1

        assert not conversation.held


def test_a_registry_that_is_down_raises_nothing_and_is_found_again(registry: FakeRegistry) -> None:
    registry.stop()

    with (
        sync.Client(registry=registry.address) as client,
        client.conversation("c", ttl=SHORT) as conversation,
    ):
        assert not conversation.held
        registry.start(registry.port)
        registry.grant("c")
        assert renewed_again(registry)
        assert conversation.held


async def test_a_registry_that_is_frozen_raises_nothing(registry: FakeRegistry) -> None:
    registry.freeze()

    async with aio.Client(registry=registry.address) as client, client.conversation("c", ttl=SHORT) as conversation:
        assert not conversation.held
        registry.thaw()


def test_a_call_that_is_lost_loses_no_lease(client: sync.Client, registry: FakeRegistry) -> None:
    registry.grant("c", ttl=30.0)

    with client.conversation("c", ttl=SHORT) as conversation:
        registry.fail_next(Unavailable("lost"), Unavailable("lost"))

        assert conversation.held


@pytest.mark.parametrize("end_on_exit", [True, False])
def test_it_ends_on_exit_if_wished(client: sync.Client, registry: FakeRegistry, *, end_on_exit: bool) -> None:
    registry.grant("c")

    with client.conversation("c", end_on_exit=end_on_exit) as conversation:
        assert conversation.held

    assert len(client.list_leases()) == (0 if end_on_exit else 1)
    assert conversation.held != end_on_exit


async def test_it_ends_on_exit_also_after_an_error(registry: FakeRegistry) -> None:
    registry.grant("c")

    async with aio.Client(registry=registry.address) as client:
        with pytest.raises(ZeroDivisionError):
            async with client.conversation("c", end_on_exit=True) as conversation:
                raise ZeroDivisionError

        assert await client.list_leases() == []
        assert not conversation.held


def test_the_same_conversation_may_be_held_twice(client: sync.Client, registry: FakeRegistry) -> None:
    registry.grant("c", ttl=SHORT)

    with client.conversation("c", ttl=SHORT) as outer:
        with client.conversation("c", ttl=SHORT):
            pass
        assert renewed_again(registry)
        assert outer.held


def test_a_refusal_is_raised_on_entering(client: sync.Client, registry: FakeRegistry) -> None:
    registry.fail_next(PermissionDenied("not yours"))

    with pytest.raises(PermissionDenied), client.conversation("c"):
        pytest.fail("entered")

    assert not keepers()


def test_closing_the_client_ends_the_thread(registry: FakeRegistry) -> None:
    registry.grant("c")
    client = sync.Client(registry=registry.address)

    with client.conversation("c", ttl=SHORT):
        (keeper,) = keepers()
        client.close()

        assert not keeper.is_alive()


def test_closing_the_client_cuts_a_renewal_that_hangs(registry: FakeRegistry) -> None:
    registry.grant("c")
    client = sync.Client(registry=registry.address)

    with client.conversation("c", ttl=30.0):
        registry.freeze()
        with client.conversation("c", ttl=SHORT):
            client.close()

    assert not keepers()


async def test_a_cancelled_tool_lets_go(registry: FakeRegistry) -> None:
    registry.grant("c")
    entered = asyncio.Event()

    async def hold(client: aio.Client) -> None:
        async with client.conversation("c"):
            entered.set()
            await asyncio.Event().wait()

    async with aio.Client(registry=registry.address) as client:
        tool = asyncio.create_task(hold(client))
        await entered.wait()
        (keeper,) = keepers()
        tool.cancel()
        with pytest.raises(asyncio.CancelledError):
            await tool
        await asyncio.to_thread(keeper.join, 10.0)

        assert not keeper.is_alive()
