"""Leases while messages are lost, programs stand still and look-ups flood, and leases that must go first."""

import asyncio
import time

import httpx
import pytest

from kvlease.client import sync
from kvlease.client.errors import Unavailable
from kvlease.client.testing import FakeRegistry
from kvlease.v1 import registry_pb2
from tests.conftest import Seen
from tests.connector.linked import Linked
from tests.connector.plane import Registry, Router
from tests.connector.requests import PREFILL
from tests.e2e.stack import Stack, assert_same, tokens
from tests.registry.messages import AS_TENANT, chat, grant, opened, served

SHORT = 1.2  # seconds; a third of it lies between two renewals


@pytest.mark.case(26)
def test_leases_are_released_before_an_engine_drops_its_kv(stack: Stack, conversation: str, seen: Seen) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    stack.leased(conversation)

    revoked = stack.client.revoke("decode")
    took = stack.settle()
    httpx.post(f"{stack.decode.url}/reset_prefix_cache").raise_for_status()
    history = history + said.tokens + tokens(50)
    again = stack.complete(history, conversation)

    assert_same(again, stack.cold(history))
    seen(f"{revoked} lease revoked, its blocks free {took:.1f} s later; then {again.cached} reused")
    assert revoked == 1
    assert again.cached == 0


@pytest.mark.case(28)
def test_a_lost_renewal_loses_no_lease(seen: Seen) -> None:
    with FakeRegistry() as registry, sync.Client(registry=registry.address) as client:
        registry.grant("c", ttl=SHORT)
        with client.conversation("c", ttl=SHORT) as conversation:
            registry.fail_next(Unavailable("lost on its way"))
            begun, renewals = time.monotonic(), len(registry.calls)
            assert registry.wait_for("RenewLeases", renewals + 6)
            lasted = time.monotonic() - begun
            held, live = conversation.held, len(client.list_leases(conversation_id="c"))
    seen(f"a renewal lost; {lasted:.1f} s later a lease of {SHORT:g} s is {'held' if held and live else 'gone'}")
    assert held
    assert live == 1
    assert lasted > SHORT


@pytest.mark.case(28)
def test_lost_heartbeats_lose_no_lease(stack: Stack, conversation: str, seen: Seen) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    stack.leased(conversation)
    stack.renew(conversation, ttl=60)

    httpx.post(f"{stack.decode.url}/admin/faults", json={"lose_answers": 4}).raise_for_status()
    while httpx.get(f"{stack.decode.url}/admin/faults").json()["lose_answers"]:
        time.sleep(0.1)
    stack.wait_until_pd()
    again = stack.complete(history + said.tokens + tokens(50), conversation)

    seen(f"answers to four heartbeats lost; {again.cached} tokens reused")
    assert again.cached > 0


@pytest.mark.case(31)
def test_an_engine_that_stood_still_for_long_is_back_by_itself(stack: Stack, conversation: str, seen: Seen) -> None:
    history = tokens(500)
    said = stack.complete(history, conversation)
    stack.leased(conversation)
    stack.renew(conversation, ttl=60)

    stack.decode.pause()
    begun = time.monotonic()
    while stack.leases(conversation):
        time.sleep(0.1)
    gone = time.monotonic() - begun
    time.sleep(gone)
    stack.decode.resume()
    stack.wait_until_pd()
    history = history + said.tokens + tokens(50)
    lost = stack.complete(history, conversation)
    stack.leased(conversation)
    history = history + lost.tokens + tokens(50)
    kept = stack.complete(history, conversation)

    assert_same(kept, stack.cold(history))
    seen(f"paused for {2 * gone:.1f} s, leases gone after {gone:.1f} s; then {lost.cached}, then {kept.cached} reused")
    assert lost.cached == 0
    assert kept.cached > 0


@pytest.mark.case(34)
async def test_a_flood_of_look_ups_loses_no_lease(seen: Seen) -> None:
    async with served() as (_, registry):
        decode = await opened(registry)
        names = [f"l{number}" for number in range(20)]
        for name in names:
            await registry.GrantLease(grant(decode, name, conversation=chat(name)))
        renewals = [registry_pb2.LeaseRenewal(lease_id=name, ttl={"seconds": 2}) for name in names]  # type: ignore[arg-type]
        begun, flooded = time.monotonic(), 0
        look = registry_pb2.ListLeasesRequest()
        beat = registry_pb2.HeartbeatRequest(credential=decode)
        while time.monotonic() < begun + 3.0:
            flood = [registry.ListLeases(look, metadata=AS_TENANT) for _ in range(100)]
            answers = await asyncio.gather(
                registry.RenewLeases(registry_pb2.RenewLeasesRequest(renewals=renewals), metadata=AS_TENANT),
                registry.Heartbeat(beat),
                *flood,
            )
            beat.received_number = answers[1].number
            flooded += len(flood)
        live = len((await registry.ListLeases(look, metadata=AS_TENANT)).leases)
    seen(f"{flooded} look-ups in {time.monotonic() - begun:.1f} s; {live} of {len(names)} leases live")
    assert live == len(names)


@pytest.mark.case(35)
async def test_a_client_renews_while_its_program_is_blocked(seen: Seen) -> None:
    with FakeRegistry() as registry, sync.Client(registry=registry.address) as client:
        registry.grant("c", ttl=SHORT)
        with client.conversation("c", ttl=SHORT) as conversation:
            time.sleep(2 * SHORT)  # noqa: ASYNC251 - the event loop is to be blocked
            held = conversation.held
    seen(f"a client's event loop blocked for {2 * SHORT:g} s, leases of {SHORT:g} s: {'held' if held else 'gone'}")
    assert held


@pytest.mark.case(35)
async def test_an_engine_s_heartbeats_go_on_while_it_is_blocked(seen: Seen) -> None:
    with Registry() as registry, Router() as router:
        linked = Linked(registry, router, PREFILL).start()
        before = len(registry.asked("Heartbeat"))
        time.sleep(1.0)  # noqa: ASYNC251 - vLLM's scheduler stands still
        beats = len(registry.asked("Heartbeat")) - before
        linked.stop()
    seen(f"an engine's loop blocked for 1 s, heartbeats due every 0.2 s: {beats} came")
    assert beats > 1
